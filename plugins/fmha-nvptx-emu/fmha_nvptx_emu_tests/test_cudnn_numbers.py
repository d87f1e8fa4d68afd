"""cuDNN's kernels executed from their own PTX: problems are right, and each changed number of their parameters is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli import api
from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle.fills import fill
from fmha_cli.run.arena import Arena
from fmha_cli.run.builds import build_context, build_orders, emulation_of
from fmha_cli.run.cases import Cases
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy, judge
from fmha_cli.run.layout import layout_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.request import Command, Order, Request
from fmha_cli.run.supervisor import Supervisor
from fmha_nvptx_emu_tests.support import changed_numbers
from tests.support.generators.cudnn_oss.numbers import ARCHS, FEW, MANY, UNREAD, UNSEEN, leaves

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)
SECONDS = {FEW: 5.0, MANY: 240.0}
"""The limit of a launch; of others 20. With a changed counter it never ends, and unchanged the smallest problem takes a quarter of a second."""
Passes = Callable[..., bool]
UNITS = 5
"""Of so few multiprocessors each takes several tiles."""
PROBLEMS = (
    ("sm_90a", "-b 2 -H 4 --kv-heads 2 -s 256 -d 64 --causal --lse", "normal"),
    ("sm_90a", "-b 1 -H 3 -s 384 -d 128 --mask causal-tl --layout bshd --lse", "coded"),
    ("sm_90a", "-b 3 -H 2 --kv-heads 1 -s 128 -d 128 --causal --layout bhsd:bshd", "large"),
    ("sm_100a", "-b 2 -H 4 --kv-heads 2 -s 256 -d 128 --causal --lse", "ties"),
    ("sm_100a", "-b 1 -H 3 -s 768 -d 64 --mask causal-tl --layout bshd:bhsd --lse", "sparse_int"),
    ("sm_103a", "-b 3 -H 1 -s 512 -d 64 --mask window:511,0 --scale 0.3 --lse", "normal"),
)


class Bench:
    """The kernel of an architecture for a problem on an emulated device, and a worker that changes a number of its parameters."""

    def __init__(self, arch: str, line: str, registry: Registry, supervisor: Supervisor, named: Path) -> None:
        self.supervisor, self.named, self.seconds = supervisor, named, SECONDS.get(line, 20.0)
        device = f"emu:{arch}"
        facts = replace(emulated_device(registry, device)[1], units=UNITS)
        problem = Problem.from_cli(line)
        request = Request(command=Command.RUN, device=device, emu_checks=False)
        context = build_context(request)
        backend = changed_numbers.changed
        supported = (d for d in backend.decide(problem, facts) if isinstance(d, api.Supported))
        plan = backend.plan(problem, min(supported, key=lambda d: d.rank).kernel, facts)
        built = build_orders(map(Order, plan.stages), registry, context)
        self.job = WorkerJob(
            entry=f"{changed_numbers.__name__}:changed",
            device=facts,
            plan=plan,
            artifacts=tuple(built[stage.kernel.digest].value for stage in plan.stages),
            emulation=emulation_of(request, registry, context),
        )
        self.cases = Cases(lambda one, kind: fill(one, kind), oracle_s=60.0)

    def judged(self, name: str | None, kind: str = "normal") -> Outcome:
        self.named.write_text(name or "", "utf-8")
        policy = JudgePolicy(fills=(kind,), timeout=self.seconds, late=False, stream="fa2")
        with Arena(layout_of(self.job.plan.problem, self.job.plan.workspaces, gaps=True)) as arena:
            return judge(self.supervisor, self.job, arena, self.cases, policy)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Bench]]:
    """``bench(arch, line)``: the bench of a problem."""
    registry, named = build_registry(), tmp_path_factory.mktemp("changed") / "name"
    with pytest.MonkeyPatch.context() as patch, Supervisor() as supervisor:
        patch.setenv(changed_numbers.VARIABLE, str(named))
        yield cache(lambda arch, line: Bench(arch, line, registry, supervisor, named))


@pytest.fixture(scope="module")
def passes(bench: Callable[[str, str], Bench]) -> Passes:
    """``passes(engine, name, line)``: whether the problem passes with one number changed."""
    return lambda engine, name, line=FEW: bench(ARCHS[engine], line).judged(name).verdict is api.Verdict.PASSED


NAMES = [(engine, name) for engine in ARCHS for name, _ in leaves(engine) if name not in UNREAD]
SOME = ("tiles_r_div.mul", "d_tile_id_counter", "desc_max.strides[1]", "tma_k.strides[0]")
"""Numbers that CI changes; the slow suite changes all."""


@pytest.mark.parametrize(("arch", "line", "kind"), PROBLEMS, ids=lambda value: str(value).replace(" ", ""))
def test_problems_are_right(arch: str, line: str, kind: str, bench: Callable[[str, str], Bench]) -> None:
    result = bench(arch, f"--dtype bf16 {line}").judged(None, kind)
    assert result.verdict in (api.Verdict.PASSED, api.Verdict.MISTRUSTED), result.notes
    assert all(check.passed for comparison in result.comparisons for _, check in comparison.checks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_problems_are_right(seed: int, bench: Callable[[str, str], Bench]) -> None:
    rng = Random(seed)
    arch, kv_heads = rng.choice(["sm_90a", "sm_100a", "sm_103a"]), rng.choice([1, 2, 3])
    rows = rng.choice([1, 2, 3, 5]) * (128 if arch == "sm_90a" else 256)
    line = (
        f"--dtype bf16 -b {rng.choice([1, 2, 3])} -H {kv_heads * rng.choice([1, 2, 5])} --kv-heads {kv_heads} -s {rows}"
    )
    line += f" -d {rng.choice([64, 128])} {rng.choice(['--causal', '--mask causal-tl'])} --lse"
    line += f" --layout {rng.choice(['bhsd', 'bshd', 'bhsd:bshd', 'bshd:bhsd'])}"
    result = bench(arch, line).judged(None, rng.choice(["normal", "coded", "large", "ties", "sparse_int"]))
    assert result.verdict in (api.Verdict.PASSED, api.Verdict.MISTRUSTED), result.notes


@pytest.mark.parametrize("engine", ARCHS)
def test_without_a_change_the_problem_passes(engine: str, passes: Passes) -> None:
    assert passes(engine, None)


@pytest.mark.slow
def test_sections_of_heads_pass(passes: Passes) -> None:
    assert passes("sm100", None, MANY)


def test_the_lists_name_numbers() -> None:
    known = {name for engine in ARCHS for name, _ in leaves(engine)}
    assert known >= UNREAD | UNSEEN.keys()


@pytest.mark.parametrize("name", SOME)
def test_some_changed_numbers_are_noticed(name: str, passes: Passes) -> None:
    assert not passes("sm90", name)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "name"), NAMES)
def test_a_changed_number_is_noticed(engine: str, name: str, passes: Passes) -> None:
    unseen = name in UNSEEN and not (engine == "sm90" and name.endswith("dims[2]"))
    unseen = unseen and not (engine == "sm100" and name == "attnDesc.s_q")
    sections = engine == "sm100" and name.startswith(("l2_", "num_"))
    assert (not passes(engine, name) or (sections and not passes(engine, name, MANY))) != unseen
