"""The emitted text: pure, equal to the reviewed one, without a line of upstream's; and what cannot be cut out of a header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fmha_cli.codegen.cudnn_oss.emit import FILE, derive_files, emit
from fmha_cli.codegen.cudnn_oss.facts import facts_of, kernels
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.sources.pins import pin_of

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "cudnn_oss"
KERNELS = {f"{k.arch}-d{k.signature.hdim}.cu": k for arch in ("sm_90a", "sm_100a", "sm_103a") for k in kernels(arch)}


@pytest.mark.parametrize("name", KERNELS)
def test_texts_are_the_reviewed_ones(name: str) -> None:
    text = emit(KERNELS[name])
    assert text == (GOLDEN / name).read_text("utf-8")
    assert text.isascii()
    assert KERNELS[name].name in text


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == KERNELS.keys()


def test_two_architectures_share_a_text_of_upstream() -> None:
    assert facts_of(KERNELS["sm_100a-d64.cu"]) == facts_of(KERNELS["sm_103a-d64.cu"])
    assert emit(KERNELS["sm_100a-d64.cu"]) != emit(KERNELS["sm_103a-d64.cu"])


def test_the_pinned_source_has_every_file() -> None:
    pin = pin_of("cudnn-frontend")
    for kernel in KERNELS.values():
        assert pin.find_place(facts_of(kernel).file) == facts_of(kernel).file
    assert set(pin.notice) <= {pin.find_place(name) for name in pin.notice}


def header(kernel: KernelSpec, tree: Path, text: str) -> None:
    path = tree / facts_of(kernel).file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_literals_are_joined_as_by_a_compiler(tmp_path: Path) -> None:
    """Other constants of the file, and what looks like the end of a literal, are not part of the text."""
    kernel = KERNELS["sm_90a-d64.cu"]
    name = facts_of(kernel).variable
    body = f'inline constexpr const char {name}[] =\n    R"KERNEL(\nint a; // )" ;\n)KERNEL"\n\n  R"KERNEL(int b;)KERNEL";\n'
    other = (
        'inline constexpr const char x_flags[] = R"FLAGS(--no)FLAGS";\nconst char more[] = R"KERNEL(int c;)KERNEL";\n'
    )
    header(
        kernel,
        tmp_path,
        f"#pragma once\n{other}{body}inline constexpr size_t {name}_len = sizeof({name}) - 1;\n{other}",
    )
    assert derive_files(kernel, tmp_path) == {FILE: '\nint a; // )" ;\nint b;'}


@pytest.mark.parametrize(
    "text",
    [
        "",
        'char {0}[] = "plain";',
        'char {0}[] = R"KERNEL(a)KERNEL" MACRO;',
        'char {0}[] = R"KERNEL(a)KERNEL"',
        'char {0}_len[] = R"KERNEL(a)KERNEL";',
    ],
)
def test_another_header_is_an_error(tmp_path: Path, text: str) -> None:
    kernel = KERNELS["sm_100a-d128.cu"]
    header(kernel, tmp_path, text.format(facts_of(kernel).variable))
    with pytest.raises(InternalError, match="raw string literals"):
        derive_files(kernel, tmp_path)


def test_every_assertion_names_a_fact() -> None:
    """A fact that no assertion mentions would not be compared with the text."""
    for kernel in KERNELS.values():
        said = " ".join(facts_of(kernel).asserts)
        assert set(re.findall(r"\{(\w+)\}", said)) == {"rows", "keys", "hdim", "shared"}
