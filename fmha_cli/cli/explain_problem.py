"""``fmha explain`` of a problem: the ranked kernels, the reasons against others, and the smallest change that would work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fmha_cli.bench.roofline import CacheState
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.explain_why import why_page
from fmha_cli.cli.problems import ProblemPoint, one_problem, points_of
from fmha_cli.cli.request import found_by, request_of, trees_of
from fmha_cli.cli.store import tuned_of
from fmha_cli.discovery.nearest import nearest_changes
from fmha_cli.discovery.preference import Preference
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Selection, select
from fmha_cli.discovery.sweep import expand
from fmha_cli.discovery.why import backend_because, because
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.spoken import whole_of
from fmha_cli.report.documents.choices import ChoiceRow, Choices, choices_view
from fmha_cli.report.documents.explain import (
    PreferenceRow,
    PreferredRow,
    TunedRow,
    explain_document,
    explain_view,
)
from fmha_cli.report.form import Format
from fmha_cli.report.parts import KernelRow
from fmha_cli.run.request import Request
from fmha_cli.run.rows import plan_rows

if TYPE_CHECKING:
    from fmha_cli.run.tuned_choice import Advice


def explain_problem(call: CliCall) -> None:
    """Print the decisions about a problem, or the comparison of two kernels.

    Raises:
        UsageError: E002, one kernel of a pair alone, or several problems; what ``points_of`` and ``request_of`` refuse.
    """
    pair = call.settings.many("why")
    if len(pair) not in (0, 2):
        where = call.settings.where("why")
        raise UsageError(f"{where}: two kernels are compared", code="E002", where=where, help="--why A B")
    several = request_of(call).wanted.several and expand(call.problem_flags).axes
    if not pair and (several or call.settings.many("model")):
        points = points_of(call)
        if len(points) > 1:
            choices = choices_of(call, points)
            if call.output.form is Format.TABLE and call.settings.on("verbose"):
                call.output.table(choices, partial(choices_view, whole=True))
            else:
                call.output.document(choices)
            return
        problem = points[0].problem
    else:
        problem = one_problem(call)
    request = request_of(call)
    wanted = request.wanted
    found = found_by(call, wanted)
    selection = select(problem, call.registry, found, wanted, refusals_too=True)
    if wanted.arch is not None and (fuller := _fuller(call.registry, wanted.arch)):
        call.console.say(fuller)
    if pair:
        call.output.document(why_page(call, problem, selection, found, wanted))
        return
    changes: tuple[str, ...] = ()
    if selection.best is None:
        named = {d.kernel.name for d in selection.trace.decisions if d.kernel is not None} if wanted.kernel else set()
        same = replace(wanted, kernel=named.pop()) if len(named) == 1 else wanted  # a full name is found faster

        def serves(other: Problem) -> bool:
            return select(other, call.registry, found, same, refusals_too=True).best is not None

        changes = nearest_changes(problem, selection.trace, serves)
    chosen = selection.best.kernel if selection.best else None
    advice = _advice(call, problem, request, selection, found)
    chosen = chosen if advice is None or advice.choice is None else advice.choice.kernel
    trees = trees_of(call, named=True)
    preference = PreferenceRow(order=order_of(found, selection.preference), because=backend_because(selection))
    most = call.settings.size("limit", 0, 1) if "limit" in call.settings.values else None
    document = explain_document(
        problem,
        selection.trace,
        chosen,
        changes,
        because(selection),
        trees,
        preference,
        _tuned_row(advice),
        most if call.output.form is Format.JSON else None,
    )
    if call.output.form is Format.TABLE:
        limit = 0 if call.settings.on("all") else most
        call.output.table(document, partial(explain_view, limit=limit))
    else:
        call.output.document(document)


def _fuller(registry: Registry, arch: str) -> str | None:
    """That other backends have kernels for the same GPUs under the name with the suffix ``a``; None if there are none."""
    whole = whole_of(arch, registry.arch_names())
    more = [name for name, b in registry.backends.items() if whole in b.archs() and arch not in b.archs()]
    return (
        f"more kernels exist for {whole}, which these GPUs take too ({', '.join(more)}): --arch {whole}"
        if more
        else None
    )


def _advice(
    call: CliCall, problem: Problem, request: Request, selection: Selection, found: Mapping[str, Availability]
) -> Advice | None:
    """What was tuned for a problem in hot caches, as ``run`` has them."""
    from fmha_cli.run.tuned_choice import chooser_of  # numpy: 100 ms

    chooser = chooser_of(request, call.registry, found, tuned_of(call), Voice(call.console.say))
    return None if chooser is None else chooser.advice(problem, selection, CacheState.HOT)


def _tuned_row(advice: Advice | None) -> TunedRow | None:

    if advice is None:
        return None
    digest = None if advice.choice is None else advice.choice.kernel.digest
    return taken_from(advice.entry, TunedRow, used=advice.used, digest=digest, reasons=advice.reasons, text=advice.text)


def choices_of(call: CliCall, points: Sequence[ProblemPoint]) -> Choices:
    """The rows that ``bench`` would run for several backends or the layers of a model, with the kernel or the reasons of each."""
    request = request_of(call)
    found, rows = found_by(call, request.wanted), []
    problems, layers = [point.problem for point in points], [point.layer for point in points]
    for row in plan_rows(problems, request, call.registry, found, Voice(call.console.say), layers):
        kernel = None if row.choice is None else row.choice.kernel
        upstream = None if kernel is None else call.registry.backend(kernel.backend).upstream_name(kernel)
        rows.append(
            ChoiceRow(
                problem=row.problem.to_dict(),
                backend=row.asked or ("auto" if kernel is None else kernel.backend),
                device=None if row.choice is None or not row.choice.runnable else row.choice.device.id,
                arch=None if kernel is None else kernel.arch,
                kernel=None if kernel is None else KernelRow.of(kernel, upstream),
                reasons=row.reasons,
                layer=row.layer,
            )
        )
    return Choices(rows=tuple(rows))


def order_of(asked: Iterable[str], preference: Preference) -> tuple[PreferredRow, ...]:
    """The backends that were asked, in the order in which ``auto`` takes them on one device if none is confirmed there."""
    return tuple(
        PreferredRow(
            backend=name,
            source=preference.source(name),
            confirmed=tuple(row.arch for row in preference.confirmed if row.backend == name),
        )
        for name in preference.sorted(asked)
    )
