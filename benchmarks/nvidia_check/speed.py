"""Interleave the timing of our kernels and PyTorch's operators in one process, and measure the machine's ceilings.

    python benchmarks/nvidia_check/speed.py JOB.json

Both sides work on the same numbers in the same layout. Our side runs as in the worker: plan, session, and its own event
times, summed over stages. PyTorch's operator is captured in a CUDA graph, so neither side pays for the host. Every
result becomes one line of the job's file as soon as it is known.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.sampling import SamplingPolicy
from fmha_cli.bench.stats import median, median_interval
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend, BuildContext
from fmha_cli.domain.tensors import Role
from fmha_cli.oracle.tensors import Array
from fmha_cli.run.arena import Arena
from fmha_cli.run.layout import layout_of
from fmha_cli.run.timing import sample_turns
from nvidia_check.budget import Budget, out_of_time
from nvidia_check.plans import planned
from nvidia_check.results import Result
from nvidia_check.speed_points import GOAL, Point
from nvidia_check.subjects import KNOWN, Subject
from nvidia_check.torch_side import Torch, ceilings

POLICY = SamplingPolicy(min_samples=20, max_samples=200, budget_ns=1_000_000_000, rel_ci=0.01)
POINT_S = 6.0
"""The most seconds that one point may take; with less time left, the part ends."""
AGREES = 0.02
"""The largest difference between the two outputs, relative to the largest value; beyond it, the race is not fair."""


class Ours:
    """One plan on the device, run in this process as in the worker."""

    def __init__(self, backend: Backend, plan: Plan, device: Any, context: BuildContext) -> None:
        artifacts = [backend.build(stage, context) for stage in plan.stages]
        self.session = backend.open(device)
        self.session.load(plan, [artifact.path for artifact in artifacts])
        self.arena = Arena(layout_of(plan.problem, plan.workspaces))

    def take(self, arrays: Mapping[str, Array]) -> None:
        """Bind the arena and upload the inputs."""
        wanted = {s.name for s in self.arena.layout.slots if s.role in (Role.INPUT, Role.INOUT)}
        self.arena.write({name: array for name, array in arrays.items() if name in wanted})
        self.arena.prepare()
        self.session.bind(memoryview(self.arena._map), self.arena.layout.tensors, 0)
        self.session.upload()

    def launch(self, count: int) -> tuple[tuple[int, ...], ...]:
        return tuple(self.session.launch() for _ in range(count))

    def output(self, name: str) -> Array:
        self.session.download()
        return self.arena.view(name)

    def close(self) -> None:
        self.session.close()
        self.arena.close()


def raced(point: Point, subject: Subject, backend: Backend, device: Any, context: BuildContext, torch: Torch) -> Result:
    """One point: our outputs are checked against those of the first rival that can run it, then the timed launches of
    all are interleaved.
    """
    result = Result(point.part, point.name, point.flags, backend=subject.backend)
    problem = Problem.from_cli(point.flags)
    plan = planned(backend, problem, device)
    if isinstance(plan, str):
        result.verdict, result.why = "UNSUPPORTED", plan
        return result
    result.families = [stage.family.value for stage in plan.stages]
    ours = Ours(backend, plan, device, context)
    try:
        torch.draw(problem, point)
        theirs, absent = rivals_of(subject, problem, point, torch)
        against = next(iter(theirs))
        ours.take(torch.arrays())
        ours.launch(1)
        off = torch.difference({name: ours.output(name) for name in torch.outputs})
        named = torch.kernels(theirs[against])
        timed = sample_turns((ours.launch, *(torch.timed(call) for call in theirs.values())), POLICY, seed=1)
    finally:
        ours.close()
        torch.forget()
    mine, other, *more = ([sum(stages) for stages in side.launches] for side in timed)
    ratio = Ratio.of(other, mine, against="ours", paired=True)
    result.figures = figures(problem, mine, other, ratio, against) | {"difference": off, "graph": torch.captured}
    result.figures["stages_ns"] = [median([launch[n] for launch in timed[0].launches]) for n in range(len(plan.stages))]
    result.figures["beside"] = absent | {
        name: median(samples) for name, samples in zip(list(theirs)[1:], more, strict=True)
    }
    result.figures["kernels"] = {"ours": [backend.upstream_name(s.kernel) for s in plan.stages], "torch": named}
    result.verdict, result.why = verdict_of(off, subject.same_kernel, result.figures["kernels"]["ours"], named)
    return result


def rivals_of(
    subject: Subject, problem: Problem, point: Point, torch: Torch
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """The calls of the rivals that can run the point, in order, and why the others cannot.

    Raises:
        RuntimeError: none can.
    """
    theirs: dict[str, Callable[[], Any]] = {}
    absent: dict[str, str] = {}
    for name in subject.rivals:
        try:
            theirs[name] = torch.operator(name, problem, point)
        except Exception as fault:  # noqa: BLE001 - PyTorch's faults have no common type
            absent[name] = f"{type(fault).__name__}: {str(fault)[:200]}"
    if not theirs:
        raise RuntimeError(f"no rival runs the point: {'; '.join(f'{name}: {why}' for name, why in absent.items())}")
    return theirs, absent


def verdict_of(
    off: float, same_kernel: bool, ours: Sequence[str | None], named: Sequence[str]
) -> tuple[str, str | None]:
    """The verdict about a race and the reason; a race whose kernels could not be compared passes with a reason.

    Args:
        off: the difference of the outputs.
        same_kernel: whether both sides must run the same kernels, those of memory-efficient attention.
        ours: the names of our kernels in upstream.
        named: the kernels that PyTorch's profiler saw, with their parameters.
    """
    if off > AGREES:
        return "WRONG", f"the two outputs differ by {off:.3g} of the largest value"
    if not same_kernel:
        return "PASSED", None
    theirs = {name.partition("(")[0].split()[-1] for name in named if "fmha_cutlass" in name}
    if not theirs:
        return "PASSED", "the kernels were not compared: PyTorch's profiler named none of attention"
    if other := sorted(theirs - {*ours}):
        return "WRONG", f"PyTorch ran {', '.join(other)}, we ran {', '.join(map(str, ours))}"
    return "PASSED", None


def figures(problem: Problem, mine: list[int], other: list[int], ratio: Ratio, against: str) -> dict[str, Any]:
    """The measurements; ``ratio`` is PyTorch's time divided by ours, so above 1 we are faster; ``against``: its operator."""
    rates = {
        name: (problem.flops() / median(t) / 1e3, problem.bytes() / median(t))
        for name, t in (("ours", mine), ("torch", other))
    }
    low, high = ratio.ratio_ci95 or (ratio.ratio, ratio.ratio)
    unit = 1 if problem.seqlen_q == 1 else 0
    words = ("TFLOP/s", "GB/s")[unit]
    return {
        "samples": len(mine),
        "against": against,
        "ours_ns": median(mine),
        "ours_ci95": median_interval(mine),
        "torch_ns": median(other),
        "torch_ci95": median_interval(other),
        "ratio": ratio.ratio,
        "ratio_ci95": ratio.ratio_ci95,
        "goal_met": ratio.ratio >= GOAL,
        "tflops": rates["ours"][0],
        "gbps": rates["ours"][1],
        "torch_tflops": rates["torch"][0],
        "torch_gbps": rates["torch"][1],
        "line": f"{median(mine) / 1e3:9.1f} us  {rates['ours'][unit]:7.1f} {words}  {against} {rates['torch'][unit]:7.1f}  "
        f"{ratio.ratio:.3f}x [{low:.3f}, {high:.3f}]{'' if ratio.ratio >= GOAL else '  below the goal'}",
    }


def results(job: Mapping[str, Any], budget: Budget) -> Iterator[Result]:
    """The ceilings, then every point for which there is time."""
    registry = build_registry()
    backend = registry.backend(job["backend"])
    found = {device.id: device for device in backend.probe().devices}
    device = found[job["device"]]
    context = BuildContext(cache_root=Path(job["cache_root"]), offline=True)
    (subject,) = (one.at(device) for one in KNOWN if one.backend == job["backend"])
    torch = Torch(int(job["device"].partition(":")[2]))
    if job["ceilings"]:
        yield from ceilings(torch)
    for point in subject.points:
        if budget.left < POINT_S:
            yield Result(point.part, point.name, point.flags, why=out_of_time(budget, point.name))
            continue
        yield guarded(lambda point=point: raced(point, subject, backend, device, context, torch), point)


def guarded(race: Callable[[], Result], point: Point) -> Result:
    """The result of a race. If it fails, the result has the reason, so the next point can still run."""
    try:
        return race()
    except Exception as fault:  # noqa: BLE001 - PyTorch's faults have no common type
        return Result(point.part, point.name, point.flags, "CRASHED", why=f"{type(fault).__name__}: {str(fault)[:300]}")


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    with Path(job["records"]).open("a", encoding="utf-8") as out:
        for result in results(job, Budget(job["seconds"])):
            out.write(json.dumps(asdict(result)) + "\n")
            out.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
