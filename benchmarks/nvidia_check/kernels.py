"""The kernels that a check needs: lists them, finds those in the cache, and builds the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Timer
from types import MappingProxyType

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem, Interrupted
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, Batched, BuildContext, Estimated
from fmha_cli.run.builds import say_costs
from fmha_cli.toolchain.parallel import COMPILE_BYTES, Job, build_many
from nvidia_check.plans import planned, stages_of


@dataclass(frozen=True)
class Pool:
    """The kernels of a check.

    Attributes:
        plans: flags -> plan, or why there is none.
        stages: the distinct kernels, by digest.
    """

    plans: Mapping[str, Plan | str]
    stages: Mapping[str, Stage]

    @property
    def arch(self) -> str:
        """The architecture for which the kernels are; empty without kernels."""
        return next((stage.kernel.arch for stage in self.stages.values()), "")

    def serves(self, plan: Plan | str) -> bool:
        """Whether a plan needs only these kernels."""
        return not isinstance(plan, str) and all(stage.kernel.digest in self.stages for stage in plan.stages)

    def only(self, digests: Iterable[str]) -> Pool:
        """The pool restricted to the given kernels."""
        have = set(digests)
        return Pool(self.plans, {digest: stage for digest, stage in self.stages.items() if digest in have})


def pool_of(
    backend: Backend, device: DeviceFacts, flags: Sequence[str], kernels: Mapping[str, str] = MappingProxyType({})
) -> Pool:
    """The kernels that some problems need on a device. ``kernels``: flags -> what the kernel's name holds."""
    plans = {line: planned(backend, Problem.from_cli(line), device, kernels.get(line, "")) for line in flags}
    return Pool(plans, stages_of(plan for plan in plans.values() if isinstance(plan, Plan)))


@dataclass(frozen=True)
class Supply:
    """The supply of a pool's kernels by digest: the artifacts, and why the others are missing."""

    artifacts: Mapping[str, Artifact]
    faults: Mapping[str, str]

    def text(self) -> str:
        """``80 kernels: 70 prebuilt by NVRTC 13.0.88, 8 built here, 2 missing``."""
        made = [a for a in self.artifacts.values() if not a.cached]
        brought: dict[str, int] = {}
        for artifact in self.artifacts.values():
            if artifact.prebuilt_by:
                brought[artifact.prebuilt_by] = brought.get(artifact.prebuilt_by, 0) + 1
        kept = len(self.artifacts) - len(made) - sum(brought.values())
        parts = [f"{n} prebuilt by {by}" for by, n in sorted(brought.items())]
        parts += [
            f"{n} {word}"
            for n, word in ((kept, "in the cache"), (len(made), "built here"), (len(self.faults), "missing"))
            if n
        ]
        return f"{len(self.artifacts) + len(self.faults)} kernels: {', '.join(parts)}"


def supply(
    pool: Pool,
    backend: Backend,
    cache_root: Path,
    *,
    jobs: int,
    seconds: float,
    offline: bool = True,
    slow: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> Supply:
    """Take every kernel from the cache or build it; compilers that still run after ``seconds`` are stopped.

    Args:
        slow: compile kernels, too, whose compile is known to take long (``Estimated``).
        say: takes what the builds will take, before the first one.
    """
    stop = Event()
    context = BuildContext(cache_root=cache_root, jobs=jobs, offline=offline, timeout=max(1.0, seconds), stop=stop)
    if isinstance(backend, Batched):
        try:
            context = replace(context, prepared=backend.prepare(context))
        except EnvironmentProblem as fault:
            return Supply({}, dict.fromkeys(pool.stages, fault.what))
    work = [_job(backend, stage, context, slow) for stage in pool.stages.values()]
    say_costs([(backend, stage, context) for stage in pool.stages.values()], say)
    timer = Timer(max(0.0, seconds), stop.set)
    timer.daemon = True
    timer.start()
    try:
        batch = build_many(work, jobs)
    finally:
        timer.cancel()
    outcomes = dict(zip(pool.stages, batch.outcomes, strict=True))
    artifacts = {digest: outcome.value for digest, outcome in outcomes.items() if outcome.value is not None}
    faults = {digest: outcome.error.what for digest, outcome in outcomes.items() if outcome.error is not None}
    return Supply(artifacts, faults)


def _job(backend: Backend, stage: Stage, context: BuildContext, slow: bool) -> Job[Artifact]:
    memory = backend.compile_bytes(stage.kernel) if isinstance(backend, Batched) else COMPILE_BYTES

    def build(interrupted: Event) -> Artifact:
        assert context.stop is not None
        if context.stop.is_set() or interrupted.is_set():
            raise Interrupted(f"{stage.kernel.name} was not built: no time left", code="B009")
        if not slow and isinstance(backend, Estimated) and (seconds := backend.compile_seconds(stage, context)):
            least, most = seconds
            what = f"{stage.kernel.name} was not built: it takes {least:.0f} to {most:.0f} s; gpu_prepare.py builds it"
            raise EnvironmentProblem(what, code="B009")
        return backend.build(stage, context)

    return Job(stage.kernel.name, build, memory)
