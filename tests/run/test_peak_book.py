"""Which peak a row is compared with, and the ceilings next to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fmha_null import NullBackend
from fmha_null.kernels import null_kernel

from fmha_cli.bench.roofline import Bound
from fmha_cli.discovery.select import Choice
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.phases import SILENT
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.run.peaks import PeakBook
from fmha_cli.run.request import Command, Context
from fmha_cli.run.rows import Row

DEVICE = DeviceFacts(id="cpu", archs=("fast", "slow"))
RATES = {"fast": 4e11, "slow": 1e11}


class LoopBackend(NullBackend):
    """Has loops for two architectures; the artifact's name is the architecture."""

    def build_peaks(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        (arch,) = device.archs
        return Artifact(Path(arch), "", arch, Path("log"), True, 0.0)

    def run_peaks(self, artifact: Path, threads: int) -> dict[str, object]:
        raise AssertionError("only the worker runs them")

    def run_canary(self, artifact: Path, threads: int, *, memory: bool) -> float:
        raise AssertionError("only the worker runs it")


@dataclass
class PeaksSupervisor:
    """Stands in for the supervisor."""

    seen: list[tuple[str, bool]] = field(default_factory=list)

    def peaks(self, entry: str, backend: str, artifact: Artifact, threads: int) -> dict[str, Any]:
        rate = RATES[artifact.path.name]
        return {"flops": {"fp32": rate}, "bandwidth": 1e10, "llc_bytes": 0, "source": "loops"}

    def canary(self, entry: str, backend: str, artifact: Artifact, threads: int, *, memory: bool) -> float | None:
        self.seen.append((artifact.path.name, memory))
        return None if threads > 1 else RATES[artifact.path.name] / 2


def row(arch: str, line: str = "-b 1 -H 1 -s 512 -d 64 --dtype fp32") -> Row:
    kernel = replace(null_kernel(DType.FP32, Family.FWD), arch=arch)
    return Row(group=0, problem=Problem.from_cli(line), choice=Choice(Supported(kernel, (0,)), DEVICE), plan=None)


def book(cache: Path, asked: PeaksSupervisor, *, command: Command = Command.BENCH, threads: int = 1) -> PeakBook:
    registry = SimpleNamespace(backend=lambda name: LoopBackend(), entry_point=lambda name: "entry")
    context = SimpleNamespace(
        request=SimpleNamespace(command=command, peak="measured"),
        registry=registry,
        building=BuildContext(cache_root=cache),
        supervisor=asked,
        threads=threads,
        voice=SILENT,
    )
    return PeakBook(cast(Context, context))


@pytest.mark.promise("Settings of CPU kernels come from sourced facts, or from a measurement despite noise.")
def test_a_kernel_is_compared_with_the_peak_of_its_own_instructions(tmp_path: Path) -> None:
    peaks = book(tmp_path, PeaksSupervisor())
    for arch in ("slow", "fast", "slow"):
        found = peaks.peaks(row(arch))
        assert found is not None
        assert found.flops == {"fp32": RATES[arch]}
    again = peaks.floor_again(row("slow"))
    assert again is not None
    assert again.compute_ns == pytest.approx(row("slow").problem.flops() / 1e11 * 1e9)


def test_the_ceiling_is_of_the_kind_that_bounds_the_row(tmp_path: Path) -> None:
    asked = PeaksSupervisor()
    peaks = book(tmp_path, asked)
    assert peaks.ceiling(row("slow")) == (Bound.COMPUTE, 5e10)
    assert peaks.ceiling(row("fast", "-b 1 -H 1 -s 1 --seqlen-k 4096 --dtype fp32")) == (Bound.MEMORY, 2e11)
    assert asked.seen == [("slow", False), ("fast", True)]


def test_nobody_looks_where_nothing_is_compared(tmp_path: Path) -> None:
    asked = PeaksSupervisor()
    assert book(tmp_path, asked, command=Command.RUN).ceiling(row("slow")) is None
    assert book(tmp_path, asked).ceiling(replace(row("slow"), choice=None)) is None
    assert asked.seen == []
    assert book(tmp_path, asked, threads=2).ceiling(row("slow")) is None  # it did not run
