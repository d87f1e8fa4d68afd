"""A sample of the faults of the check ``nvptx_emulator_faults``: each is caught, or a further run explains it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")


from fmha_cli.api import build_registry
from tests.support.careful import CAREFUL
from tests.support.planted.outcomes import Caught, sampled
from tests.support.planted.ptx import faults
from tests.support.planted.ptx_rows import rows
from tests.support.planted.ptx_runs import KERNELS, PlantedPtx
from tests.support.planted.statements import ORDERING, Planted


@pytest.mark.promise("A fault planted in a real kernel's PTX is caught, or a further run explains it.")
def test_a_sample_of_faults_in_a_hopper_kernel_is_caught_or_explained(tmp_path: Path) -> None:
    """The kernel has every class of faults but those of ``mma.sync``."""
    pytest.importorskip("cuda.bindings")
    kernel = next(k for k in KERNELS if k.backend == "cudnn_oss")
    with PlantedPtx(kernel, build_registry(), tmp_path) as subject:
        assert (subject.plain.verdict, subject.plain.findings) == ("PASSED", ())
        every = faults(subject.text, subject.problem.hdim * 2)
        done = list(rows(subject, sampled(every, 1, seed=0), every))
    assert {row["line"]: row for row in done if row["caught"] == Caught.UNEXPLAINED} == {}
    found = {row["fault"]: row["caught"] for row in done if row["caught"] is not None}
    assert len(found) >= 18
    assert sum(how in (Caught.NAMED, Caught.NUMBERS, Caught.HANGS) for how in found.values()) >= 12
    named = [row["fault"] for row in done if row["caught"] == Caught.NAMED]
    assert sum(kind in named for kind in ORDERING) >= 4


@pytest.mark.promise("A careful run of an emulator leaves the results, counts and findings of a fast one.")
@pytest.mark.parametrize("backend", ["cudnn_oss", "mem_efficient"])
def test_a_careful_run_sees_the_same(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernel, and of one fault of each class."""
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv(CAREFUL, "1")
    kernel = next(k for k in KERNELS if k.backend == backend and "-d 64" in k.flags)
    with PlantedPtx(kernel, build_registry(), tmp_path) as subject:
        for fault in sampled(faults(subject.text, subject.problem.hdim * 2), 1, seed=1):
            with suppress(ValueError):  # it is not valid PTX
                subject.run(fault)


TENSOR = (
    Planted.ALLOCATED, Planted.COMMITTED, Planted.PRODUCT, Planted.MATRIX, Planted.MATRIX_SWIZZLE, Planted.QUARTER, Planted.COORDINATE, Planted.KEPT,
)  # fmt: skip


def test_faults_of_tensor_memory_in_the_blackwell_kernel_are_caught_or_explained(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    pytest.importorskip("triton", minversion="3.9", reason="Triton 3.9 is not installed")
    pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")
    kernel = next(k for k in KERNELS if k.arch == "sm_100a")
    with PlantedPtx(kernel, build_registry(), tmp_path) as subject:
        assert (subject.plain.verdict, subject.plain.findings) == ("PASSED", ())
        every = faults(subject.text, subject.problem.hdim * 2)
        done = list(rows(subject, sampled([f for f in every if f.kind in TENSOR], 1, seed=0), every))
    assert {row["fault"] for row in done} == {kind.value for kind in TENSOR}
    found = {row["fault"]: row["caught"] for row in done}
    assert Caught.UNEXPLAINED not in found.values()
    assert sum(how in (Caught.NAMED, Caught.NUMBERS, Caught.HANGS) for how in found.values()) >= 5
    assert found[Planted.ALLOCATED.value] == Caught.NAMED
