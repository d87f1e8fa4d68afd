"""The check without a device: it does everything up to the launch. Every row is NOT_RUN and says how far it got."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fa_check.budget import Budget
from fa_check.cases import SANITIZED
from fa_check.check import BACKEND, MOST, WANTED, Options, bring, drawn, environment, planned_row, unready
from fa_check.kernels import Supply, pool_of, supply
from fa_check.plans import planned
from fa_check.results import Result
from fa_check.sanitizer import tool
from fa_check.shards import Wanted
from fa_check.speed_points import POINTS
from fa_check.torch_side import operators
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.walk.dry_run import dry_fates
from fmha_cli.walk.request import Command, Request
from fmha_cli.walk.rows import plan_rows


def dry_run(arch: str, options: Options, budget: Budget) -> tuple[list[Result], dict[str, Any]]:
    """The rows of all requested parts, and the rest of the record."""
    registry = build_registry()
    backend, device = registry.backend(BACKEND), DeviceFacts.of_arch(arch)
    notes: dict[str, Any] = {"environment": environment(), "arch": arch, **bring(options)}
    pool = pool_of(backend, device)
    kernels = supply(pool, backend, options.cache_root, jobs=options.jobs, seconds=budget.share(0, MOST["build"]) or 0)
    notes["kernels"] = {"text": kernels.text(), "missing": dict(kernels.faults)}
    budget.done("kernels")
    results: list[Result] = []
    if "cases" in options.parts:
        results += launches("cases", WANTED, arch, pool.plans, kernels, registry, options)
        budget.done("cases")
    if "speed" in options.parts:
        results += _speed(pool.plans, kernels)
    if "random" in options.parts:
        results += _random(backend, device, options, pool.only(kernels.artifacts))
        budget.done("random")
    if "sanitizer" in options.parts:
        found = tool()
        why = "dry run: compute-sanitizer is here" if found else "compute-sanitizer is not installed here"
        results += [Result("sanitizer", w.name, w.flags, why=why) for w in WANTED if w.name in SANITIZED]
    notes["seconds"] = dict(budget.spent)
    return results, notes


def launches(
    part: str,
    wanted: Sequence[Wanted],
    arch: str,
    plans: Any,
    kernels: Supply,
    registry: Registry,
    options: Options,
) -> list[Result]:
    """Take every problem with available kernels up to the launch: its grids and arguments from the host's own code."""
    out = {w.name: planned_row(part, w, plans[w.flags], kernels) for w in wanted}
    ready = [w for w in wanted if out[w.name].why is None]
    request = Request(
        command=Command.RUN, backend=BACKEND, arch=arch, dry_run=True, offline=True, cache_root=str(options.cache_root)
    )
    backend = registry.backend(BACKEND)
    points = [Problem.from_cli(w.flags) for w in ready]
    rows = plan_rows(points, request, registry, {BACKEND: backend.probe()})
    try:
        fates, _ = dry_fates(rows, request, registry)
    except FmhaError as fault:
        for w in ready:
            out[w.name].why = f"dry run: {fault.what}"
        return list(out.values())
    for w, fate in zip(ready, fates, strict=True):
        result = out[w.name]
        result.verdict = fate.verdict.value
        result.families = [launch.family for launch in fate.launches]
        grids = [list(launch.grid) for launch in fate.launches]
        result.why = "dry run: as far as the launch" if grids else "; ".join(fate.notes)
        result.figures = {"grids": grids}
        if grids and tuple(result.families) != w.families:
            result.verdict, result.why = "WRONG", f"{', '.join(w.families)} expected, not {', '.join(result.families)}"
    return list(out.values())


def _speed(plans: Any, kernels: Supply) -> list[Result]:
    try:
        operators()
        other = "PyTorch's operators are here"
    except (ImportError, AttributeError) as fault:
        other = f"no PyTorch to race with: {fault}"
    out = []
    for point in POINTS:
        part = "decode" if point.kind == "decode" else "speed"
        why = unready(plans[point.flags], kernels) or f"dry run: planned and built; {other}"
        out.append(Result(part, point.name, point.flags, families=_families(plans[point.flags]), why=why))
    return out


def _families(plan: Plan | str) -> list[str]:
    return [] if isinstance(plan, str) else [stage.family.value for stage in plan.stages]


def _random(backend: Backend, device: DeviceFacts, options: Options, pool: Any) -> list[Result]:
    try:
        wanted = drawn(pool, backend, device, options)
    except ValueError as fault:
        return [Result("random", f"{options.count} problems", why=f"the kernels at hand serve too few: {fault}")]
    out = []
    for w in wanted:
        families = _families(planned(backend, Problem.from_cli(w.flags), device))
        out.append(Result("random", w.name, w.flags, families=families, why="dry run: drawn and planned"))
    return out
