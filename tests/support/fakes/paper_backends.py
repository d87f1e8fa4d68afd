"""Paper backends for tests of selection: no device, no compiler, no worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BuildContext, Session
from fmha_cli.domain.rules import CORE_RULES, Rule, reasons_against
from fmha_cli.domain.signature import MaskKey, ModeKey, Need, Signature


@dataclass(frozen=True, kw_only=True)
class Paper(Algorithm):
    tile: int = 64


class PaperBackend:
    """Supports fp16 with any mask; it has two tiles, the larger one first."""

    algorithm: type[Algorithm] = Paper
    dropout_stream = "fmha"
    probes_in_parent = True

    def __init__(self, name: str, archs: tuple[str, ...], *, automatic: bool = True, hdim: int = 128) -> None:
        self.name = name
        self.automatic = automatic
        self.hdim = hdim
        self._archs = archs

    def probe(self) -> Availability:
        return Availability(state=State.NO_DEVICE, why="paper has no device", help="print one")

    def archs(self) -> tuple[str, ...]:
        return self._archs

    def kernels(self, arch: ArchSpec) -> Iterator[KernelSpec]:
        yield from self.of(arch.name)

    def of(self, arch: str) -> Iterator[KernelSpec]:
        for tile in (128, 64):
            signature = Signature(
                dtype=DType.FP16, dtype_out=DType.FP16, hdim=self.hdim, hdim_v=self.hdim,
                mask=MaskKey.ANY, mode=ModeKey.ANY, gqa=Need.ANY,
            )  # fmt: skip
            yield KernelSpec(
                backend=self.name, family=Family.FWD, arch=arch, signature=signature, algorithm=Paper(tile=tile)
            )

    def rules(self) -> tuple[Rule, ...]:
        return CORE_RULES

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        for arch in device.archs:
            for rank, kernel in enumerate(self.of(arch) if arch in self._archs else ()):
                reasons = reasons_against(self.rules(), problem, kernel, device)
                yield Unsupported(self.name, arch, kernel, tuple(reasons)) if reasons else Supported(kernel, (rank,))

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return Plan(problem, (Stage(kernel),))

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        return Artifact(Path("paper"), "", stage.kernel.digest, Path("log"), True, 0.0)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return f"paper_{kernel.arch}_{kernel.algorithm.tile}" if isinstance(kernel.algorithm, Paper) else None

    def open(self, device: DeviceFacts) -> Session:
        raise OSError("paper cannot be opened")


def checked(backend: PaperBackend) -> Backend:
    """The fake as a Backend, so mypy holds it to the protocol."""
    return backend
