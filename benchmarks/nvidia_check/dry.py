"""The check without a device: it does everything up to the launch. Every row is NOT_RUN and says how far it got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.run.dry_run import dry_outcomes
from fmha_cli.run.request import Command, Request
from fmha_cli.run.rows import plan_rows
from nvidia_check.budget import Budget
from nvidia_check.check import MOST, Options, bring, drawn, environment, planned_row, unready, with_kernel, with_kernels
from nvidia_check.kernels import Pool, Supply, pool_of, supply
from nvidia_check.plans import machine_of, planned
from nvidia_check.results import Result
from nvidia_check.rivals import RIVALS
from nvidia_check.sanitizer import tool
from nvidia_check.shards import Wanted
from nvidia_check.subjects import Subject


def dry_run(
    arch: str, subjects: Sequence[Subject], options: Options, budget: Budget
) -> tuple[list[Result], dict[str, Any]]:
    """The rows of all requested parts, and the rest of the record."""
    registry, device = build_registry(), machine_of(arch)
    notes: dict[str, Any] = {"environment": environment(), "arch": arch, **bring(options), "kernels": {}}
    supplied = []
    served, results = with_kernels(device, subjects, options)
    for subject in (subject.at(device) for subject in served):
        backend = registry.backend(subject.backend)
        pool = pool_of(backend, device, subject.flags, subject.kernels)
        seconds = budget.share(0, MOST["build"]) or 0
        kernels = supply(pool, backend, options.cache_root, jobs=options.jobs, seconds=seconds, slow=False)
        notes["kernels"][subject.backend] = {"text": kernels.text(), "missing": dict(kernels.faults)}
        supplied.append((subject, backend, pool, kernels))
    budget.done("kernels")
    for subject, backend, pool, kernels in supplied:
        for row in _rows(subject, backend, device, pool, kernels, registry, options, budget):
            row.backend, row.arch = subject.backend, pool.arch
            results.append(row)
    notes["seconds"] = dict(budget.spent)
    return results, notes


def _rows(
    subject: Subject,
    backend: Backend,
    device: DeviceFacts,
    pool: Pool,
    kernels: Supply,
    registry: Registry,
    options: Options,
    budget: Budget,
) -> Iterator[Result]:
    if "cases" in options.parts:
        arch = pool.arch or device.archs[0]
        wanted = [with_kernel(w, subject, pool) for w in subject.wanted]
        yield from launches("cases", wanted, backend, arch, pool.plans, kernels, registry, options)
        budget.done("cases")
    if "speed" in options.parts:
        yield from _speed(subject, pool.plans, kernels)
    if "random" in options.parts:
        yield from _random(subject, backend, device, options, pool.only(kernels.artifacts))
        budget.done("random")
    if "sanitizer" in options.parts:
        why = "dry run: compute-sanitizer is here" if tool() else "compute-sanitizer is not installed here"
        chosen = [w for w in subject.wanted if w.name in subject.sanitized]
        yield from (Result("sanitizer", w.name, w.flags, why=why) for w in chosen)


def launches(
    part: str,
    wanted: Sequence[Wanted],
    backend: Backend,
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
        command=Command.RUN,
        backend=backend.name,
        arch=arch,
        dry_run=True,
        offline=True,
        cache_root=str(options.cache_root),
    )
    found = {backend.name: backend.probe()}
    rows = [
        row
        for w in ready
        for row in plan_rows([Problem.from_cli(w.flags)], replace(request, kernel=w.kernel or None), registry, found)
    ]
    try:
        outcomes, _ = dry_outcomes(rows, request, registry)
    except FmhaError as fault:
        for w in ready:
            out[w.name].why = f"dry run: {fault.what}"
        return list(out.values())
    for w, outcome in zip(ready, outcomes, strict=True):
        result = out[w.name]
        result.verdict = outcome.verdict.value
        result.families = [launch.family for launch in outcome.launches]
        grids = [list(launch.grid) for launch in outcome.launches]
        result.why = "dry run: as far as the launch" if grids else "; ".join(outcome.notes)
        result.figures = {"grids": grids}
        if grids and tuple(result.families) != w.families:
            result.verdict, result.why = "WRONG", f"{', '.join(w.families)} expected, not {', '.join(result.families)}"
    return list(out.values())


def _speed(subject: Subject, plans: Any, kernels: Supply) -> list[Result]:
    try:
        for name in subject.rivals:
            RIVALS[name].operators()
        other = "PyTorch's operators are here"
    except (ImportError, AttributeError) as fault:
        other = f"no PyTorch to race with: {fault}"
    out = []
    for point in subject.points:
        why = unready(plans[point.flags], kernels) or f"dry run: planned and built; {other}"
        out.append(Result(point.part, point.name, point.flags, families=_families(plans[point.flags]), why=why))
    return out


def _families(plan: Plan | str) -> list[str]:
    return [] if isinstance(plan, str) else [stage.family.value for stage in plan.stages]


def _random(subject: Subject, backend: Backend, device: DeviceFacts, options: Options, pool: Pool) -> list[Result]:
    try:
        wanted = drawn(subject, pool, backend, device, options)
    except ValueError as fault:
        return [
            Result("random", f"{options.drawn(subject)} problems", why=f"the kernels at hand serve too few: {fault}")
        ]
    out = []
    for w in wanted:
        families = _families(planned(backend, Problem.from_cli(w.flags), device))
        out.append(Result("random", w.name, w.flags, families=families, why="dry run: drawn and planned"))
    return out
