"""``Plan``: the stages that solve a problem, and ``Artifact``: a built kernel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem


@dataclass(frozen=True)
class Stage:
    """One kernel launch of a plan. ``detail`` is what ``fmha plan`` shows of it (grid, splits ...)."""

    kernel: KernelSpec
    detail: tuple[tuple[str, str], ...] = ()

    @property
    def family(self) -> Family:
        return self.kernel.family


@dataclass(frozen=True)
class Workspace:
    """One scratch tensor that the core allocates, poisons and guards: name, bytes, alignment in bytes."""

    name: str
    bytes: int
    align: int = 256


@dataclass(frozen=True)
class Plan:
    """Stages in launch order. The first stage of a forward plan that computes attention (appending keys does not),
    and the dq_dk_dv stage of a backward plan, is the main one: ``main`` is what ``--kernel`` names."""

    problem: Problem
    stages: tuple[Stage, ...]
    workspaces: tuple[Workspace, ...] = ()
    splits: int = 1

    @property
    def main(self) -> KernelSpec:
        backward = [s.kernel for s in self.stages if s.family is Family.BWD_DQ_DK_DV]
        forward = [s.kernel for s in self.stages if s.family is not Family.FWD_APPENDKV]
        return (backward or forward or [self.stages[0].kernel])[0]

    @property
    def workspace_bytes(self) -> int:
        return sum(w.bytes for w in self.workspaces)

    @property
    def predicted_bytes(self) -> int:
        """Device memory that the run needs: every tensor once, and the workspaces."""
        return self.problem.bytes() + self.workspace_bytes


@dataclass(frozen=True)
class Artifact:
    """A built kernel in the cache.

    Attributes:
        path: the loadable file; sha256: of its bytes, verified before every load.
        digest: of the cache key; log: the full build log.
        cached: it was there already; build_seconds: what building it took (then, if cached).
        prebuilt_by: the compiler that built it elsewhere, for a kernel that an archive brought; else None.
    """

    path: Path
    sha256: str
    digest: str
    log: Path
    cached: bool
    build_seconds: float
    prebuilt_by: str | None = None
