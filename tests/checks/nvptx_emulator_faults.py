"""Plant faults in real kernels' PTX, and record how an emulated NVIDIA device catches them.

Kernels of several compilers and writers (``ptx_runs.KERNELS``) run as with ``fmha run``. At most 14 faults of each class of ``ptx.py`` are drawn for a
kernel; each is one text and one run, judged like every other row. A fault is caught by name if a finding or a message names its kind and
instruction, also if a deadlock names who waits. Every other fault that was not caught by numbers has a reason that a further run found. A row is
good if its fault was caught or has a reason.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.api import build_registry
from tests.checks.check import Check, Row, product
from tests.support.planted.outcomes import explained, sampled, summary
from tests.support.planted.ptx import faults
from tests.support.planted.ptx_rows import rows
from tests.support.planted.ptx_runs import KERNELS, PlantedPtx, PtxKernel
from tests.support.planted.statements import Planted

SAMPLE, SEED = 14, 0


@dataclass(frozen=True)
class PtxFaults:
    """The drawn faults of a class in a kernel."""

    kernel: PtxKernel
    fault: Planted

    @property
    def name(self) -> str:
        return f"{name_of(self.kernel)}: {self.fault.value}"


def name_of(kernel: PtxKernel) -> str:
    """A kernel in the summary."""
    return f"{kernel.arch} {kernel.backend} {kernel.name}"


def rows_of(case: PtxFaults) -> Iterator[Row]:
    """The rows of a class of faults in a kernel; none if the kernel has no place for such a fault."""
    with tempfile.TemporaryDirectory() as folder, PlantedPtx(case.kernel, build_registry(), Path(folder)) as subject:
        if subject.plain.verdict != "PASSED" or subject.plain.findings:
            raise ValueError(f"{name_of(case.kernel)}, its text unchanged: {subject.plain}")
        every = faults(subject.text, subject.problem.hdim * subject.problem.dtype.bits // 8)
        chosen = [f for f in sampled(every, SAMPLE, SEED) if f.kind is case.fault]
        for row in rows(subject, chosen, every):
            yield {"kernel": name_of(case.kernel), "digest": subject.spec.digest, **row}


CHECK = Check(
    cases=lambda: [PtxFaults(kernel, fault) for kernel in KERNELS for fault in Planted],
    name=lambda case: case.name,
    carry_out=rows_of,
    depends=lambda case: product("fmha-nvptx-emu"),
    good=explained,
    by=("fault", "caught"),
    summarise=summary,
)
