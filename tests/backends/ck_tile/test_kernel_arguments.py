"""The real host code of CK's kernels on the recording stand-in: what it registers, packs and launches.

Every case builds the stages of a plan and loads the libraries in a worker with the stand-in. It then compares the grid,
the block and every packed argument of each launch with ``tests.support.referees.ck_tile.kargs``, which derives them independently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.plan import Artifact, Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BuildContext, DryRun, LaunchView
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from tests.support.referees.ck_tile.kargs import expected


@dataclass(frozen=True)
class StagedProblem:
    """A problem on an architecture; ``families`` are the expected stages in order.

    CI judges the ``quick`` stages. Its other tests compile the same kernels.
    """

    arch: str
    line: str
    families: tuple[Family, ...]
    quick: tuple[Family, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.arch} {self.line}"


FWD, SPLIT, COMBINE = (Family.FWD,), Family.FWD_SPLITKV, Family.FWD_SPLITKV_COMBINE
SPLITKV = (SPLIT, COMBINE)
APPEND_SPLITKV = (Family.FWD_APPENDKV, *SPLITKV)
BWD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)

CASES = (
    StagedProblem("gfx942", "-b 2 -H 4 -s 200 --seqlen-k 300 -d 64 --splits 1", FWD, quick=FWD),
    StagedProblem("gfx942", "--seqlens-q 100,1,50 --seqlens-k 30,80,120 -H 4 -d 64 --alibi --causal --lse --splits 1", FWD),
    StagedProblem(
        "gfx942",
        "-b 2 -H 6 --kv-heads 2 -s 130 --seqlen-k 260 -d 128 --dtype bf16 --layout bshd --bias elementwise:1hss "
        "--mask window:40,3 --lse --dropout 0.2 --seed 123456789012 --offset 77 --splits 1",
        FWD,
    ),
    StagedProblem("gfx942", "-b 2 -H 4 -s 256 -d 128 --softcap 30 --mask window-tl:64,0 --layout bshd:bhsd --scale 0.3 --splits 1", FWD),
    StagedProblem("gfx942", "-b 1 -H 2 -s 128 -d 128 --dtype fp8_e4m3:bf16 --qscale tensor --splits 1", FWD),
    StagedProblem("gfx90a", "-b 2 -H 2 -s 100 -d 64 --dtype fp32 --bias elementwise:bhss --splits 1", FWD),
    StagedProblem("gfx950", "-b 1 -H 4 --kv-heads 1 -s 300 -d 128 --causal --splits 1", FWD),
    StagedProblem("gfx1201", "-b 3 -H 4 -s 90 -d 64 --dtype bf16 --alibi-slopes filled:bh --dropout 0.5 --seed 3 --splits 1", FWD),
    StagedProblem("gfx942", "-b 2 -H 8 --kv-heads 2 -s 16 --kv-cache linear --cache-seqlens 1000,513 -d 64 --lse --splits 4", SPLITKV),
    StagedProblem("gfx942", "--seqlens-q 33,7 --kv-cache paged:128 --cache-seqlens 700,200 -H 4 --kv-heads 2 -d 128 --causal --splits 3", SPLITKV),
    StagedProblem("gfx1201", "-b 2 -H 8 --kv-heads 2 -s 1 --seqlen-k 2048 -d 128 --splits 8", SPLITKV),
    StagedProblem(
        "gfx942",
        "-b 2 -H 4 --kv-heads 2 -s 5 --kv-cache linear --cache-seqlens 100,64 --append 5 --rotary 32 -d 64 --splits 2",
        APPEND_SPLITKV,
    ),
    StagedProblem(
        "gfx90a",
        "-b 2 -H 2 -s 4 --kv-cache linear --cache-seqlens 100,37 --append 4 --rotary 64 -d 128 --causal --splits 2",
        APPEND_SPLITKV,
        quick=(COMBINE,),
    ),
    StagedProblem(
        "gfx942",
        "-b 2 -H 4 -s 3 --kv-cache paged:128 --cache-seqlens 300,17 --append 3 --rotary 64:interleaved -d 128 "
        "--dtype bf16 --causal --splits 2",
        APPEND_SPLITKV,
    ),
    StagedProblem("gfx942", "-b 2 -H 4 -s 64 --kv-cache paged:128 --cache-seqlens 400,129 -d 128 --causal --splits 1", (Family.FWD_PAGEDKV,)),
    StagedProblem("gfx942", "--seqlens-q 64,20 --kv-cache paged:256 --cache-seqlens 400,129 -H 4 --kv-heads 1 -d 128 --splits 1", (Family.FWD_PAGEDKV,)),
    StagedProblem("gfx942", "--seqlens-q 64,20 --kv-cache paged:1 --cache-seqlens 400,129 -H 4 --kv-heads 2 -d 128 --causal --lse --splits 1", (Family.BATCH_PREFILL,)),
    StagedProblem("gfx942", "-b 2 -H 4 -s 200 --kv-cache paged:1 --cache-seqlens 400,129 -d 128 --dtype bf16 --splits 1", (Family.BATCH_PREFILL,)),
    StagedProblem("gfx942", "-b 2 -H 4 --kv-heads 2 -s 256 -d 64 --causal --direction bwd", BWD),
    StagedProblem(
        "gfx942",
        "--seqlens-q 70,30 --seqlens-k 90,200 -H 4 -d 128 --dtype bf16 --alibi --dropout 0.1 --seed 5 --offset 9 --direction bwd",
        BWD,
    ),
    StagedProblem("gfx942", "-b 2 -H 3 -s 100 -d 64 --bias elementwise:bhss --dbias --deterministic --layout bshd --direction bwd", BWD),
    StagedProblem("gfx950", "-b 2 -H 2 -s 16 --seqlen-k 64 -d 128 --direction bwd", BWD[:2]),
)  # fmt: skip


@pytest.fixture(scope="session")
def ck(shared_cache: Path) -> Backend:
    """The backend; skips the test if nothing can be built for AMD GPUs."""
    backend = Registry().backend("ck_tile")
    try:
        backend.prepare(BuildContext(cache_root=shared_cache))  # type: ignore[attr-defined]
    except EnvironmentProblem as fault:
        pytest.skip(f"no HIP compiler or no sources: {fault}")
    return backend


@pytest.fixture(scope="module")
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as found:
        yield found


def plan_for(case: StagedProblem, backend: Backend) -> Plan:
    problem, device = Problem.from_cli(case.line), DeviceFacts.of_arch(case.arch)
    main = next(f for f in case.families if f not in (Family.FWD_APPENDKV, Family.BWD_DOT_DO_O))
    decisions = [d for d in backend.decide(problem, device) if isinstance(d, Supported) and d.kernel.family is main]
    assert decisions, f"nothing supports {case.id}"
    plan = backend.plan(problem, min(decisions, key=lambda d: d.rank).kernel, device)
    assert tuple(stage.family for stage in plan.stages) == case.families
    return plan


def launches_of(
    plan: Plan, backend: Backend, supervisor: Supervisor, cache: Path, stages: tuple[Family, ...]
) -> tuple[Plan, tuple[LaunchView, ...]]:
    """The launches of some of the plan's stages."""
    cut = replace(plan, stages=tuple(stage for stage in plan.stages if stage.family in stages))
    context = BuildContext(cache_root=cache)
    artifacts: list[Artifact] = [backend.build(stage, context) for stage in cut.stages]
    assert isinstance(backend, DryRun)
    job = WorkerJob(
        entry=Registry().entry_point("ck_tile"),
        device=DeviceFacts.of_arch(plan.main.arch),
        plan=cut,
        artifacts=tuple(artifacts),
    )
    layout = layout_of(plan.problem, plan.workspaces)
    return cut, supervisor.describe(job, layout, backend.build_recorder(context))


def mismatches(plan: Plan, cut: Plan, launches: tuple[LaunchView, ...]) -> tuple[list[str], int]:
    """The differences between the launches and the expected ones, and the number of values compared."""
    out, compared = [], 0
    for stage, launch in zip(cut.stages, launches, strict=True):
        wanted = expected(plan, stage.kernel)
        got = {a.name: a.value for a in launch.arguments}
        assert len(got) == len(launch.arguments), "two members of one name"
        name = stage.family.value
        told = dict(stage.detail).get("grid", "").partition(";")[0]
        if told and told != " x ".join(map(str, launch.grid)):
            out.append(f"{name}: the plan says grid {told}, the launch has {launch.grid}")
        for what, a, b in (("grid", launch.grid, wanted.grid), ("block", launch.block, (wanted.block, 1, 1))):
            compared += 1
            out += [] if a == b else [f"{name} {what}: {a}, expected {b}"]
        for member in sorted(got.keys() | wanted.members.keys()):
            compared += 1
            a, b = got.get(member, "(absent)"), wanted.members.get(member, "(absent)")
            out += (
                []
                if a == b and isinstance(a, bool) is isinstance(b, bool)
                else [f"{name} {member}: {a!r}, expected {b!r}"]
            )
        out += _holes(launch)
    return out, compared


def _holes(launch: LaunchView) -> list[str]:
    """Members are adjacent, with only alignment between them."""
    out, end = [], 0
    for argument in sorted(launch.arguments, key=lambda a: a.offset):
        if not 0 <= argument.offset - end < 8:
            out.append(f"{launch.family} {argument.name}: at {argument.offset}, the one before ends at {end}")
        end = argument.offset + argument.bytes
    return (
        out if launch.argument_bytes - end < 8 else [*out, f"{launch.family}: {launch.argument_bytes - end} bytes more"]
    )


def check(
    case: StagedProblem, stages: tuple[Family, ...], backend: Backend, supervisor: Supervisor, cache: Path
) -> None:
    plan = plan_for(case, backend)
    cut, launches = launches_of(plan, backend, supervisor, cache, stages)
    found, compared = mismatches(plan, cut, launches)
    print(f"\n{case.id}: {len(launches)} kernels, {compared} values, {len(found)} mismatches")
    assert not found, "\n".join(found)
    assert compared > 10 * len(launches)


QUICK = tuple(case for case in CASES if case.quick)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("case", QUICK, ids=lambda c: c.id)
def test_kernels_of_two_families(case: StagedProblem, ck: Backend, supervisor: Supervisor, shared_cache: Path) -> None:
    check(case, case.quick, ck, supervisor, shared_cache)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_stage(case: StagedProblem, ck: Backend, supervisor: Supervisor, shared_cache: Path) -> None:
    check(case, case.families, ck, supervisor, shared_cache)


def test_the_cases_are_enough() -> None:
    """The cases cover at least 20 kernels and every family."""
    families = [family for case in CASES for family in case.families]
    assert len(families) >= 20
    assert set(families) == set(Family) - {Family.FWD_PREPARE}
