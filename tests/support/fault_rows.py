"""Helpers that turn a kernel into a judged row without the command line."""

from __future__ import annotations

from pathlib import Path

from fmha_null import backend as null
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.cases import Cases
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy, judge
from fmha_cli.run.layout import layout_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.supervisor import Supervisor
from tests.support.fakes import c_backend
from tests.support.fakes.c_backend import Deed

DEVICE = null.probe().devices[0]
TINY = "-b 1 -H 2 -s 5 --seqlen-k 7 -d 8 --dtype fp32"
ENTRY = "fmha_null"
CLOSE = JudgePolicy(fills=("normal", "coded"), repeats=2, timeout=60.0)


def cases() -> Cases:
    return Cases(lambda problem, kind: fill(problem, kind, 0), oracle_s=10.0)


def null_job(
    cache: Path, behaviour: Behaviour = Behaviour.HONEST, flags: str = TINY, family: Family = Family.FWD
) -> WorkerJob:
    """A built job of the null backend.

    Raises:
        KernelFailure: behaviour build_error.
    """
    problem = Problem.from_cli(flags)
    plan = null.plan(problem, null_kernel(problem.dtype, family, behaviour), DEVICE)
    artifacts = tuple(null.build(stage, BuildContext(cache)) for stage in plan.stages)
    return WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=artifacts)


def c_job(library: Artifact, deed: Deed, flags: str = TINY) -> WorkerJob:
    """A job whose kernel is C code."""
    problem = Problem.from_cli(flags)
    assert problem.dtype is DType.FP32
    plan = Plan(problem, (Stage(c_backend.c_kernel(deed)),))
    return WorkerJob(entry=c_backend.ENTRY, device=DEVICE, plan=plan, artifacts=(library,))


def judged(supervisor: Supervisor, job: WorkerJob, policy: JudgePolicy = CLOSE, shared: Cases | None = None) -> Outcome:
    """One row, judged with gaps in its arena."""
    with Arena(layout_of(job.plan.problem, job.plan.workspaces, gaps=True)) as arena:
        return judge(supervisor, job, arena, shared or cases(), policy)
