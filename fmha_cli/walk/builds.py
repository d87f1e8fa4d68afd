"""Building the kernels of all rows before the first one runs: each kernel once, in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import Event

from fmha_cli.build.parallel import Job, Outcome, build_many
from fmha_cli.build.root import cache_root, open_root
from fmha_cli.plan import Artifact, Stage
from fmha_cli.protocols import BuildContext
from fmha_cli.registry import Registry
from fmha_cli.walk.request import Request

Built = Outcome[Artifact]
"""What became of one kernel's build: an artifact, or the error that stands for it in the rows."""


def build_context(request: Request, notify: Callable[[str], None]) -> BuildContext:
    """The context of this run's builds; the cache root is checked here.

    Raises:
        EnvironmentProblem: an unsafe cache root.
    """
    root = cache_root(request.cache_root)
    open_root(root)
    jobs = request.jobs or os.cpu_count() or 1
    return BuildContext(cache_root=root, jobs=jobs, offline=request.offline, notify=notify)


def build_stages(
    stages: Sequence[Stage],
    registry: Registry,
    context: BuildContext,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Mapping[str, Built]:
    """Build every distinct kernel; kernel digest -> what became of it. One failure does not stop the others.

    Raises:
        KeyboardInterrupt: the user interrupted; what was finished is in the cache.
    """
    distinct = {stage.kernel.digest: stage for stage in stages}
    jobs = [Job(stage.kernel.name, partial(_build, registry, context, stage)) for stage in distinct.values()]
    batch = build_many(jobs, context.jobs, lambda done, total, outcome: progress(done, total, outcome.name))
    if batch.interrupted:
        raise KeyboardInterrupt
    return dict(zip(distinct, batch.outcomes, strict=True))


def _build(registry: Registry, context: BuildContext, stage: Stage, stop: Event) -> Artifact:
    return registry.backend(stage.kernel.backend).build(stage, replace(context, stop=stop))
