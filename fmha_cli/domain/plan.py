"""``Plan``: the stages that solve a problem, and ``Artifact``: a built kernel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.members import Count, Least, Sha256
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.tensors import unused_bytes


@dataclass(frozen=True)
class Stage:
    """One kernel launch of a plan. ``fmha plan`` shows its ``detail`` (grid, splits ...)."""

    kernel: KernelSpec
    detail: tuple[tuple[str, str], ...] = ()

    @property
    def family(self) -> Family:
        return self.kernel.family


@dataclass(frozen=True)
class Workspace:
    """One scratch tensor that the core allocates, poisons and guards: name, bytes, alignment in bytes."""

    name: str
    bytes: Count
    align: Annotated[int, Least(1)] = 256


@dataclass(frozen=True)
class Plan:
    """Stages in launch order.

    ``main`` is the kernel of the main stage, which ``--kernel`` names. The main stage is the first stage of a forward
    plan that computes attention (``Family.leads``: appending keys does not), or the dq_dk_dv stage of a plan with a backward pass. In a plan
    of both passes the forward's stages come first (``passes.TwoPasses``).

    Attributes:
        splits: number of key splits of the forward pass.
    """

    problem: Problem
    stages: tuple[Stage, ...]
    workspaces: tuple[Workspace, ...] = ()
    splits: int = 1

    @property
    def main(self) -> KernelSpec:
        backward = [s.kernel for s in self.stages if s.family is Family.BWD_DQ_DK_DV]
        forward = [s.kernel for s in self.stages if not s.family.leads]
        return (backward or forward or [self.stages[0].kernel])[0]

    def passes(self) -> tuple[Plan, ...]:
        """The plan of each pass of the problem, in launch order; only this plan if there is one. They share workspaces."""
        problems = self.problem.passes()
        if len(problems) == 1:
            return (self,)
        return tuple(
            Plan(
                problem,
                tuple(s for s in self.stages if s.family.backward is problem.direction.backward),
                self.workspaces,
                self.splits if problem.direction.forward else 1,
            )
            for problem in problems
        )

    @property
    def workspace_bytes(self) -> int:
        return sum(w.bytes for w in self.workspaces)

    @property
    def predicted_bytes(self) -> int:
        """Bytes of device memory that the run needs: every tensor once, the rest of a given cache, and the workspaces."""
        return self.problem.bytes() + unused_bytes(self.problem) + self.workspace_bytes


@dataclass(frozen=True, kw_only=True)
class Edited:
    """The edited sources from which a kernel was built: a tree that differs from the pinned one.

    ``tree`` is the digest of all its files; ``files`` counts the files that differ from revision ``base``.
    """

    base: str
    tree: Sha256
    files: Count


@dataclass(frozen=True)
class Artifact:
    """A built kernel in the cache.

    Attributes:
        path: the loadable file.
        sha256: hash of the file's bytes, verified before every load.
        digest: digest of the cache key.
        log: the full build log.
        cached: whether the kernel was in the cache already.
        build_seconds: duration of the build; of a cached kernel, the duration of its original build.
        prebuilt_by: the compiler that built the kernel elsewhere, if it came from an archive; else None.
        imported_from: file name of the archive that brought it; None if it was built here.
        edited: how the sources of this build differ from a known revision; None if they do not.
    """

    path: Path
    sha256: str
    digest: str
    log: Path
    cached: bool
    build_seconds: float
    prebuilt_by: str | None = None
    imported_from: str | None = None
    edited: Edited | None = None
