"""What golden texts are checked for: each check notices a text that fails it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.codegen.struct import ArgumentBlock, Int32, Pointer
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from tests.support.golden.units import GOLDEN, Golden, are_small_own_texts, texts_differ


class Block(ArgumentBlock):
    rows = ((Pointer, "p"), (Int32, "n"))


def emit(kernel: KernelSpec) -> str:
    return (
        f"// {kernel.name}\n#include <own.h>\n"
        'extern "C" __global__ void __launch_bounds__(Kernel::kNumThreads)\nown(Params p)\n{\n}\n'
        "uint32_t own_abi_table[] = {1, sizeof(Params), 2,\n  FMHA_FIELD(p),\n  FMHA_FIELD(n)};\n"
        'char own_abi_names[] = "p n";\n'
        "uint32_t own_facts[] = {1};\n"
    )


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Golden:
    from fmha_cli.backends.mem_efficient.catalogue import kernels

    listed = list(kernels(load_arch("sm_80")))[:2]
    made = Golden(
        str(tmp_path),
        emit,
        lambda kernel: Block,
        lambda kernel: "own",
        {f"{n}.cu": k for n, k in enumerate(listed)},
        "me",
    )
    made.write()
    assert not made.path.is_relative_to(GOLDEN)
    return made


def all_checks(golden: Golden) -> None:
    golden.are_the_reviewed_ones()
    golden.are_plain(["own.h"])
    golden.export_every_field()
    golden.leave_the_architecture_to_flags()


Edit = Callable[[str], str]
FAULTS: dict[str, tuple[Edit, str]] = {
    "another letter": (lambda text: text.replace("__global__ void", "__global__  void"), "are_the_reviewed_ones"),
    "another table": (lambda text: text.replace('"p n"', '"p m"'), "are_the_reviewed_ones"),
    "no ASCII": (lambda text: text.replace("own.h", "öwn.h"), "are_plain"),
    "a tab": (lambda text: text.replace("{\n}", "{\t}"), "are_plain"),
    "another header": (lambda text: text.replace("own.h", "their.h"), "are_plain"),
    "another kernel": (lambda text: text.replace("\nown(", "\nother("), "are_plain"),
    "another export": (lambda text: text.replace("own_facts", "own_more"), "are_plain"),
    "an end without a semicolon": (lambda text: text[:-2] + "\n", "are_plain"),
    "a field too few": (lambda text: text.replace("  FMHA_FIELD(p),\n", ""), "export_every_field"),
    "another count of fields": (
        lambda text: text.replace("sizeof(Params), 2", "sizeof(Params), 3"),
        "export_every_field",
    ),
    "another order of names": (lambda text: text.replace('"p n"', '"n p"'), "export_every_field"),
}


def test_a_text_without_a_fault_passes(golden: Golden) -> None:
    all_checks(golden)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_noticed(golden: Golden, fault: str) -> None:
    edit, check = FAULTS[fault]
    wrong = replace(golden, emit=lambda kernel: edit(emit(kernel)))
    with pytest.raises(AssertionError):
        getattr(wrong, check)(*([["own.h"]] if check == "are_plain" else []))


def test_an_architecture_in_the_text_is_noticed(golden: Golden) -> None:
    with pytest.raises(AssertionError):
        replace(golden, emit=lambda kernel: emit(kernel) + kernel.arch).leave_the_architecture_to_flags()


def test_a_file_that_is_left_over_is_noticed(golden: Golden) -> None:
    (golden.path / "old.cu").write_text("")
    with pytest.raises(AssertionError):
        golden.are_the_reviewed_ones()


def test_a_text_that_depends_on_the_process_is_noticed(golden: Golden, tmp_path: Path) -> None:
    (tmp_path / "impure_golden.py").write_text(
        "class GOLDEN:\n    @staticmethod\n    def digests():\n        return {'x': ' '.join(set('abcdefgh'))}\n"
    )
    with pytest.raises(AssertionError):
        golden.depend_on_the_kernel_alone("impure_golden", tmp_path)


def test_equal_texts_are_noticed(golden: Golden) -> None:
    kernels = list(golden.kernels.values())
    assert texts_differ(lambda kernel: f"\n{kernel.digest}", kernels) == 2
    with pytest.raises(AssertionError):
        texts_differ(emit, kernels)


@pytest.mark.parametrize(
    "text", ["#pragma once\n", "// a\n", "// a\n#pragma once\n\n\n", "// Copyright\n#pragma once\n"]
)
def test_a_shim_that_is_none_is_noticed(tmp_path: Path, text: str) -> None:
    (tmp_path / "shim.h").write_text("// a\n#pragma once\n")
    are_small_own_texts(tmp_path, 3)
    (tmp_path / "other.h").write_text(text)
    with pytest.raises(AssertionError):
        are_small_own_texts(tmp_path, 3)
