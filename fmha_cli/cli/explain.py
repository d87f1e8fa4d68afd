"""``fmha explain``, ``fmha explain K012``, and ``fmha plan``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import CACHE_DIR, FILES, ROOM, ROWS
from fmha_cli.domain.errors import ExitCode, ImpossibleProblem, UsageError
from fmha_cli.domain.suggest import suggest

if TYPE_CHECKING:
    from fmha_cli.discovery.registry import Registry
    from fmha_cli.domain.decision import Trace
    from fmha_cli.domain.problem import Problem
    from fmha_cli.report.documents.pages import RulePage

Raw = Mapping[str, Any]

_DROPPED = (
    "lse", "deterministic", "dbias", "splits", "sink", "sink_logits", "dropout", "softcap", "alibi", "alibi_slopes",
)  # fmt: skip
"""Flags that are dropped before another head dimension is tried."""
_DROPPED_KINDS = (
    "bias", "bias_file", "rotary", "append", "qscale", "layout", "kv_cache", "direction", "causal", "mask",
)  # fmt: skip
"""Flags that are dropped only after that."""
_DTYPES = ("fp16", "bf16", "fp32")
_MOST_PAIRS = 200


def explain(call: Call) -> None:
    """Exits 0 whenever it could answer, even if nothing serves the problem."""
    code = call.argument("rule")
    if code is not None:
        page(call, code)
        return
    from fmha_cli.cli.asked import found_by, one_problem, request_of
    from fmha_cli.discovery.select import select
    from fmha_cli.report.documents.explain import explain_document

    problem, wanted = one_problem(call), request_of(call).wanted
    found = found_by(call, wanted)
    selection = select(problem, call.registry, found, wanted)
    chosen = selection.best.kernel if selection.best else None
    change = None
    if chosen is None:
        change = smallest_change(
            problem, selection.trace, lambda other: select(other, call.registry, found, wanted).best is not None
        )
    call.output.document(explain_document(problem, selection.trace, chosen, change))


def page(call: Call, code: str) -> None:
    """The page of a rule or error."""
    from fmha_cli.domain.codec import to_json

    found = page_of(code, call.registry)
    if call.output.form == "table":
        lines = [f"{found.id}: {found.text}", "", found.help]
        lines += ["", f"Backends: {', '.join(found.backends)}"] if found.backends else []
        lines += ["", f"Source: {found.source}"] if found.source else []
        call.output.text("\n".join(lines))
    else:
        call.output.document(to_json(found))


def page_of(code: str, registry: Registry) -> RulePage:
    """``fmha.rule/1`` of an id.

    Raises:
        UsageError: no such rule or error, with near ids.
    """
    from fmha_cli.report.documents.pages import RulePage

    wanted, errors = code.upper(), error_pages()
    rules = [(backend.name, rule) for backend in registry.backends.values() for rule in backend.rules()]
    owners = tuple(sorted({name for name, rule in rules if rule.id == wanted}))
    if owners:
        rule = next(rule for _, rule in reversed(rules) if rule.id == wanted)
        help, source = rule.help or rule.text, rule.source or None
        return RulePage(id=wanted, text=rule.text, help=help, source=source, backends=owners)
    if wanted not in errors:
        what, known = f"{code}: no such rule or error", dict.fromkeys([*(rule.id for _, rule in rules), *errors])
        raise UsageError(what, code="E012", help=suggest(wanted, known), where="explain")
    text, help = errors[wanted]
    return RulePage(id=wanted, text=text, help=help, source=None, backends=())


def error_pages() -> dict[str, tuple[str, str]]:
    """Every error code with its meaning and remedy, from ``codes.json``. Rules of backends have their own pages."""
    data = json.loads(resources.files("fmha_cli.cli").joinpath("codes.json").read_text("utf-8"))
    return {code: (text, help) for code, (text, help) in data.items()}


def smallest_change(problem: Problem, trace: Trace, serves: Callable[[Problem], bool]) -> str | None:
    """``--hdim 80``, ``no --lse``; None if no change of one or two flags works.

    Args:
        trace: the refusals; their kernels show which head dims exist.
        serves: whether some kernel serves a problem.
    """
    from fmha_cli.domain.flag_text import flags_of, raw_from_text

    raw = raw_from_text(flags_of(problem))
    singles = list(_changes(problem, raw, trace))
    pairs = islice(combinations(singles, 2), _MOST_PAIRS)
    for changes in (*((single,) for single in singles), *pairs):
        changed = dict(raw)
        for key, value in changes:
            changed.pop(key, None) if value is None else changed.update({key: value})
        try:
            other = type(problem).of(**changed)
        except ImpossibleProblem:
            continue
        if serves(other):
            return " and ".join(_text(key, value) for key, value in changes)
    return None


def _changes(problem: Problem, raw: Raw, trace: Trace) -> Iterator[tuple[str, str | None]]:
    """Single changes, the least intrusive first: (flag, its new value or None to drop it)."""
    yield from ((key, None) for key in _DROPPED if key in raw)
    kernels = [miss.kernel for miss in trace.unsupported if miss.kernel is not None]
    for key in ("hdim", "hdim_v"):
        held = sorted({getattr(kernel.signature, key) for kernel in kernels})
        wanted = getattr(problem, key)
        near = sorted(held, key=lambda size: (abs(size - wanted), size))[:3]
        yield from ((key, str(size)) for size in near if size != wanted)
    yield from ((key, None) for key in _DROPPED_KINDS if key in raw)
    yield from (("dtype", dtype) for dtype in _DTYPES if dtype != problem.dtype.value)


def _text(key: str, value: str | None) -> str:
    flag = f"--{key.replace('_', '-')}"
    return f"no {flag}" if value is None else f"{flag} {value}"


def plan(call: Call) -> int:
    """Exits 3 when nothing serves the problem."""
    from fmha_cli.cli.asked import one_problem, request_of, selection_of
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
    "explain": Command(
        explain,
        options=(*ROOM, *FILES[:4], CACHE_DIR, *ROWS),
        arguments=(Argument("rule", "Id of a rule or error (K012, P006): print its page instead"),),
        detail="Shows every candidate kernel of every backend, ranked, with all reasons against those that do not fit, "
        "and the smallest change that would work.",
    ),
    "plan": Command(plan, options=(*ROOM, *FILES[:4], CACHE_DIR, *ROWS)),
}
