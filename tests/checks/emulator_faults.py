"""Plant faults in real kernels' assembly, and record how an emulated AMD device catches them.

Kernels of CK-Tile (``assembly_runs.KERNELS``) run as with ``fmha run``; if Triton is installed, one kernel of its compiler is launched alone. Each
fault of ``assembly.py`` is one assembly text, one code object and one run; of the hundreds of renumbered registers of a kernel there are 60.

A fault is caught by name if a finding or a message names its kind and instruction. A launch that never ends counts as caught by numbers. Each
uncaught fault has a reason: it was never executed, has no effect on any bit of the results, is covered by another wait, ... A row is good if its
fault was caught or has a reason.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fmha_cli.api import build_registry
from tests.checks.check import Check, Row, output_of, product, run_module
from tests.support.planted.assembly import Planted, faults
from tests.support.planted.assembly_rows import chosen_of, rows
from tests.support.planted.assembly_runs import KERNELS, CkKernel, PlantedKernel
from tests.support.planted.outcomes import explained, summary

REGISTERS, SEED = 60, 0
TRITON = ("gfx942", "gfx1201")
CHILD = "fmha_amdgpu_emu_tests.support.planted_triton"


@dataclass(frozen=True)
class AssemblyFaults:
    """All faults of a class in a kernel; in that of Triton's compiler if ``kernel`` is None."""

    arch: str
    kernel: CkKernel | None
    fault: Planted

    @property
    def name(self) -> str:
        return f"{self.arch} {self.kernel.name if self.kernel else 'Triton attention'}: {self.fault.value}"


def cases() -> Iterator[AssemblyFaults]:
    """Every class of faults in every kernel."""
    kernels: list[tuple[str, CkKernel | None]] = [(kernel.arch, kernel) for kernel in KERNELS]
    kernels += [(arch, None) for arch in TRITON if find_spec("triton") is not None]
    return (AssemblyFaults(arch, kernel, fault) for arch, kernel in kernels for fault in Planted)


def rows_of(case: AssemblyFaults) -> Iterator[Row]:
    """The rows of a class of faults in a kernel."""
    if case.kernel is None:
        found = of_triton(case.arch, case.fault.value, None, REGISTERS, SEED)
        yield from (row for row in found if row["fault"] == case.fault.value)
        return
    with tempfile.TemporaryDirectory() as folder, PlantedKernel(case.kernel, build_registry(), Path(folder)) as subject:
        if subject.plain.verdict != "PASSED" or subject.plain.findings:
            raise ValueError(f"{case.kernel.name}, its text unchanged: {subject.plain}")
        every = faults(subject.text, case.arch, subject.problem.hdim * 2)
        chosen = [f for f in chosen_of(every, "", None, REGISTERS, SEED) if f.kind is case.fault]
        for row in rows(subject, chosen, every):
            yield {"kernel": f"{case.arch} {case.kernel.name}", "digest": subject.spec.digest, **row}


def of_triton(arch: str, wanted: str, count: int | None, registers: int, seed: int) -> Iterator[Row]:
    """The rows of Triton's attention, from a separate process that loads no backend's runtime.

    Raises:
        ValueError: it failed.
    """
    words = [arch, wanted, "" if count is None else str(count), str(registers), str(seed)]
    yield from map(json.loads, output_of(run_module(CHILD, *words, plugin="fmha-amdgpu-emu")).splitlines())


CHECK = Check(
    cases=cases,
    name=lambda case: case.name,
    carry_out=rows_of,
    depends=lambda case: product("fmha-amdgpu-emu"),
    good=explained,
    by=("fault", "caught"),
    summarise=summary,
)
