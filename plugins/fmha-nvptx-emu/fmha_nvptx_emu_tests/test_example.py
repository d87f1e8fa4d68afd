"""Triton's host code on emulated devices, and Triton's multi-CTA attention example: right, and its barrier bug is found.

The example needs ``FMHA_TRITON_HOME``, a checkout of triton-lang/triton.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("triton", minversion="3.9", reason="Triton 3.9 is not installed")
pytest.importorskip("cuda.bindings")
pytest.importorskip("torch", reason="PyTorch is not installed (pip install torch)")

import torch

from fmha_nvptx_emu_tests.support.emulated_triton import EmulatedTriton, emulated_triton, placed
from fmha_nvptx_emu_tests.support.example_attention import FILE, VARIABLE, Point, example, module, points, revision, run
from fmha_nvptx_emu_tests.support.ptx_machine import library
from tests.checks import gluon_example

RELEASES = tuple(
    (f"    {name}.release()\n", "")
    for name in ("q_chnl", "kv_chnl", "o_chnl", "epi_chnl", "s0_chnl", "s1_chnl", "c0_chnl", "c1_chnl", "exp_turnstile")
)
PAIR = Point(128, False, "fp16", 2)


def _example_is_there() -> bool:
    return (Path(os.environ.get(VARIABLE, "-")) / FILE).is_file()


needs_example = pytest.mark.skipif(not _example_is_there(), reason=f"{VARIABLE} names no checkout that has {FILE}")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.fixture(name="device")
def _device() -> Iterator[EmulatedTriton]:
    with emulated_triton("sm_100a", Path(library()._name)) as driver:
        yield driver


@pytest.mark.parametrize("wrong", [False, True])
def test_a_kernel_that_triton_launches_is_executed(device: EmulatedTriton, wrong: bool) -> None:
    """Whatever changes the text changes the result: the planted fault."""
    from fmha_nvptx_emu_tests.support.tensor_kernels import plain

    if wrong:
        device.change = lambda text: text.replace("tcgen05.mma.", "// tcgen05.mma.")
    a, b = torch.randn(128, 64).half(), torch.randn(64, 64).half()
    c = torch.full((128, 64), float("nan"))
    plain[(1, 1)](a, b, c, 64, 128, 64, 64)
    (launched,) = device.launches
    if wrong:
        assert launched.kinds or launched.fault or not torch.allclose(c, a.float() @ b.float(), atol=1e-3)
        return
    assert (launched.fault, launched.kinds) == (None, [])
    assert "tcgen05.mma" in launched.ptx
    assert torch.allclose(c, a.float() @ b.float(), atol=1e-3)


def test_a_text_that_does_not_load_is_a_fault(device: EmulatedTriton) -> None:
    from fmha_nvptx_emu_tests.support.tensor_kernels import plain

    device.change = lambda text: text.replace("tcgen05.mma.", "tcgen05.mmo.")
    plain[(1, 1)](torch.zeros(128, 64).half(), torch.zeros(64, 64).half(), torch.zeros(128, 64), 64, 128, 64, 64)
    assert "tcgen05.mmo" in str(device.launches[0].fault)


def test_parameters_lie_where_the_binary_records_them() -> None:
    assert placed([b"ab", b"cdef"], [(0, 2), (4, 4)]) == b"ab\0\0cdef"
    with pytest.raises(AssertionError):
        placed([b"ab"], [(0, 4)])


@pytest.mark.promise("The PTX emulator finds hazards in unmodified kernels of Triton, cuDNN and xformers.")
@needs_example
def test_the_example_is_right_on_one_block(device: EmulatedTriton) -> None:
    ran = run(device, Point(64, True, "fp16", 1), 512, 0, module(example()))
    assert ran.verdict == "right", (ran.verdict, ran.error, ran.lse_error)


@pytest.mark.promise("The PTX emulator finds hazards in unmodified kernels of Triton, cuDNN and xformers.")
@needs_example
def test_the_barriers_that_the_example_invalidates_too_early_are_found(device: EmulatedTriton) -> None:
    """Two CTAs. With ``release()``, the first invalidates mbarriers at which the second may still arrive; without, nothing is found."""
    text = example().read_text("utf-8")
    if ".release()" in text:
        ran = run(device, PAIR, 512, 0, module(example()))
        assert "cta_group::2" in ran.launched.ptx
        assert set(ran.launched.kinds) == {"mbarrier-misuse"}
        assert all("mbarrier" in one.instruction for one in ran.launched.observed.findings)
    without = tuple((before, after) for before, after in RELEASES if before in text)
    ran = run(device, PAIR, 512, 0, module(example(), without))
    assert ran.launched.kinds == []
    assert ran.error < ran.budget


def test_a_checkout_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ValueError, match="does not name a checkout"):
        example()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match="is no checkout"):
        example()
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text("edited")
    assert revision(example()).startswith("unknown, sha256 ")


def test_the_table_has_a_line_for_each_row() -> None:
    """Wrong, stopped and named rows are not right ones."""
    row = {
        "revision": "r", "triton": "3.9.0", "arch": "sm_100a", "length": 512, "heads": 2, "seed": 0, "units": None, "ctas": 2,
        "budget": 1e-3, "error": 5e-4, "lse_error": 1e-7, "lse_budget": 1e-5, "findings": {}, "instructions": 1000,
    }  # fmt: skip
    rows = [
        {**row, "point": str(PAIR), "verdict": "right"},
        {**row, "point": str(PAIR), "verdict": "FINDING", "findings": {"mbarrier-misuse": 4}},
        {
            **row,
            "point": str(PAIR),
            "verdict": "STOPPED: line 3: x {%r1, %r2}, [%r3]",
            "error": None,
            "lse_error": None,
        },
    ]
    text = gluon_example.summary(rows)
    assert "r, Triton 3.9.0: 1 of 3 launches are right; the numbers of 2 are." in text
    assert text.count("| emu:sm_100a | fp16 d128 | 2 x 512 | 2 |") == 3
    assert "`mbarrier-misuse` 4" in text
    assert "STOPPED: line 3: x {...}, [%r3] |" in text
    text = gluon_example.summary(
        [{**row, "point": str(PAIR), "verdict": "WRONG", "lse_error": gluon_example.finite(float("inf"))}]
    )
    assert "0 of 1 launches are right; the numbers of 0 are." in text
    assert "| 5.0e-04 (50%) | not all written | 1,000 | WRONG |" in text


def test_the_grid_is_that_of_the_examples_test() -> None:
    assert len(set(points("sm_100a"))) == 36
    assert len(set(points("sm_103a"))) == 72
