"""``fmha explain``, ``fmha explain --why A B``, and ``fmha plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Argument, CommandSpec, Opt
from fmha_cli.cli.options import BUILDING, CACHE_DIR, FILES, KEPT, REVISIONS, ROOM, ROWS, SELECT, TABLE, THREADS
from fmha_cli.cli.settings import FLAG
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.phases import Voice
from fmha_cli.report.form import Format

if TYPE_CHECKING:
    from fmha_cli.cli.points import ProblemPoint
    from fmha_cli.discovery.preference import Preference
    from fmha_cli.discovery.registry import Registry
    from fmha_cli.discovery.select import Selection
    from fmha_cli.discovery.wanted import Wanted
    from fmha_cli.domain.decision import Decision
    from fmha_cli.domain.device import Availability
    from fmha_cli.domain.problem import Problem
    from fmha_cli.report.documents.choices import Choices
    from fmha_cli.report.documents.explain import ComparedKernel, PreferredRow, TunedRow, WhyPage
    from fmha_cli.run.request import Request
    from fmha_cli.run.tuned_choice import Advice

WHY = Opt(
    "why",
    FlagKind.TEXT,
    "Compare two kernels: names as in --kernel",
    panel="Choosing",
    repeats=True,
    metavar="A B",
    pair=True,
)
RULES = Opt("rules", FlagKind.SWITCH, "List every rule and error; with an argument, those whose ids begin with it")
LIMIT = Opt(
    "limit",
    FlagKind.SIZE,
    "Ranked kernels and groups of refusals in the table [default: a few]; in --json, kernels and refusals of each backend "
    "[default: all]",
    panel="Output",
)
ALL = Opt("all", FlagKind.SWITCH, "Every candidate in the table", panel="Output")


def explain(call: CliCall) -> None:
    """Exits 0 whenever it could answer, even if nothing serves the problem or a rule refuses the named kernel."""
    code = call.argument("rule")
    if code is not None or call.settings.on("rules"):
        from fmha_cli.cli.pages import page, rulebook

        _refuse_problem(call, "--rules" if code is None else code)
        if call.settings.on("rules"):
            call.output.document(rulebook(call, code or ""))
        elif code is not None:
            page(call, code)
        return
    from fmha_cli.cli.asked import found_by, request_of, trees_of
    from fmha_cli.cli.points import one_problem, points_of
    from fmha_cli.discovery.nearest import nearest_changes
    from fmha_cli.discovery.select import select
    from fmha_cli.discovery.sweep import expand
    from fmha_cli.discovery.why import backend_because, because
    from fmha_cli.report.documents.choices import choices_view
    from fmha_cli.report.documents.explain import PreferenceRow, explain_document, explain_view

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
        call.output.document(compare(call, problem, selection, found, wanted))
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
    from fmha_cli.domain.spoken import whole_of

    whole = whole_of(arch, registry.arch_names())
    more = [name for name, b in registry.backends.items() if whole in b.archs() and arch not in b.archs()]
    return (
        f"more kernels exist for {whole}, which these GPUs take too ({', '.join(more)}): --arch {whole}"
        if more
        else None
    )


def _refuse_problem(call: CliCall, asked: str) -> None:
    """Refuse flags of a problem together with the page of a rule. Those of variables and files are for other calls.

    Raises:
        UsageError: E002.
    """
    for option in (*ROOM, SELECT, *FILES[:4], WHY):
        value = call.settings.values.get(option.key)
        if value is not None and value.source == FLAG:
            what, why = f"{asked} beside --{option.name}", "a page of rules is about no problem"
            help = f"leave --{option.name} out, or {asked}"
            raise UsageError(what, code="E002", where=f"--{option.name}", why=why, help=help)


def _advice(
    call: CliCall, problem: Problem, request: Request, selection: Selection, found: Mapping[str, Availability]
) -> Advice | None:
    """What was tuned for a problem in hot caches, as ``run`` has them."""
    from fmha_cli.bench.roofline import CacheState
    from fmha_cli.cli.storing import tuned_of
    from fmha_cli.run.tuned_choice import chooser_of

    chooser = chooser_of(request, call.registry, found, tuned_of(call), Voice(call.console.say))
    return None if chooser is None else chooser.advice(problem, selection, CacheState.HOT)


def _tuned_row(advice: Advice | None) -> TunedRow | None:
    from fmha_cli.report.documents.explain import TunedRow

    if advice is None:
        return None
    entry = advice.entry
    return TunedRow(
        used=advice.used,
        kernel=entry.kernel,
        digest=None if advice.choice is None else advice.choice.kernel.digest,
        flags=entry.flags,
        made=entry.made,
        reasons=advice.reasons,
        text=advice.text,
    )


def choices_of(call: CliCall, points: Sequence[ProblemPoint]) -> Choices:
    """The rows that ``bench`` would run for several backends or the layers of a model, with the kernel or the reasons of each."""
    from fmha_cli.cli.asked import found_by, request_of
    from fmha_cli.report.documents.choices import ChoiceRow, Choices
    from fmha_cli.report.parts import KernelRow
    from fmha_cli.run.rows import plan_rows

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
    from fmha_cli.report.documents.explain import PreferredRow

    return tuple(
        PreferredRow(
            backend=name,
            source=preference.source(name),
            confirmed=tuple(row.arch for row in preference.confirmed if row.backend == name),
        )
        for name in preference.sorted(asked)
    )


def plan(call: CliCall) -> int:
    """Exits 3 when nothing serves the problem."""
    from fmha_cli.cli.asked import request_of, selection_of
    from fmha_cli.cli.points import one_problem
    from fmha_cli.report.documents.plan import plan_document

    problem = one_problem(call)
    selection = selection_of(call, problem, request_of(call))
    best = selection.best
    if best is None:
        call.output.document(plan_document(problem, None, reasons=selection.trace.reasons()))
        return int(ExitCode.UNSUPPORTED)
    backend = call.registry.backend(best.kernel.backend)
    made = backend.plan(problem, best.kernel, best.device)
    names = [backend.upstream_name(stage.kernel) for stage in made.stages]
    call.output.document(plan_document(problem, made, best.device.id if best.runnable else None, names))
    return int(ExitCode.OK)


COMMANDS = {
    "explain": CommandSpec(
        explain,
        options=(
            *ROOM,
            SELECT,
            *REVISIONS,
            *BUILDING,
            WHY,
            *FILES[:4],
            CACHE_DIR,
            THREADS,
            RULES,
            ALL,
            *KEPT,
            *TABLE,
            LIMIT,
        ),
        arguments=(Argument("rule", "Id of a rule or error (K012, P006): print its page instead"),),
        detail="Shows the ranked kernels with the reasons for their order, the ones that do not fit with the reasons "
        "against them, nearest first, and the smallest change that would work. Of a sweep with several backends, and of a model, it "
        "shows the rows that bench would run. Exits 0 whenever it could answer.",
    ),
    "plan": CommandSpec(plan, options=(*ROOM, *REVISIONS, *FILES[:4], CACHE_DIR, *ROWS)),
}


def compare(
    call: CliCall, problem: Problem, selection: Selection, found: Mapping[str, Availability], wanted: Wanted
) -> WhyPage:
    """What differs between the two kernels of ``--why``, and which rules came between them.

    Raises:
        UsageError: an unknown or ambiguous kernel, or the same one twice.
    """
    from fmha_cli.discovery.select import archs_in_play, decision_about
    from fmha_cli.discovery.wanted import wanted_backends
    from fmha_cli.discovery.why import compared, differences, placed, rule_ids
    from fmha_cli.domain.codec import taken_from
    from fmha_cli.report.documents.explain import ComparedKernel, DecidingRule, FieldRow, WhyPage

    registry, names = call.registry, call.settings.many("why")
    archs = archs_in_play(wanted_backends(registry, wanted), found, wanted)
    a, b = (decision_about(name, problem, selection, registry, archs) for name in names)
    if a.kernel is None or b.kernel is None or a.kernel == b.kernel:
        raise UsageError(f"--why {' '.join(names)}: that is one kernel", code="E002", where="--why")

    def side(decision: Decision) -> ComparedKernel:
        kernel = decision.kernel
        assert kernel is not None  # a kernel was named
        rank = placed(selection.choices, decision)
        return ComparedKernel(
            name=kernel.name,
            digest=kernel.digest,
            backend=kernel.backend,
            arch=kernel.arch,
            family=kernel.family,
            upstream_name=registry.backend(kernel.backend).upstream_name(kernel),
            supported=rank is not None,
            rank=rank,
            note=getattr(decision, "note", "") or None,
            reasons=getattr(decision, "reasons", ()),
        )

    rules = registry.rules()
    return WhyPage(
        problem=problem.to_dict(),
        a=side(a),
        b=side(b),
        differences=tuple(taken_from(row, FieldRow) for row in differences(a.kernel, b.kernel)),
        rules=tuple(
            DecidingRule(id=id, text=rules[id].text, kernel="a" if decision is a else "b")
            for decision in (a, b)
            for id in rule_ids(decision)
            if id in rules
        ),
        because=compared(selection, a, b),
    )
