"""``fmha explain``, and ``fmha explain K012``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import CACHE_DIR, FILES, ROOM, ROWS
from fmha_cli.errors import UsageError
from fmha_cli.near import suggest

if TYPE_CHECKING:
    from fmha_cli.registry import Registry


def explain(call: Call) -> int:
    """Exits 0 whenever it could answer, also when nothing serves the problem."""
    code = call.argument("rule")
    if code is not None:
        return page(call, code)
    from fmha_cli.cli.change import smallest_change
    from fmha_cli.cli.choosing import found_by
    from fmha_cli.cli.problems import one_problem
    from fmha_cli.cli.request import request_of
    from fmha_cli.report.document import explain_document
    from fmha_cli.select import select

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
    return 0


def page(call: Call, code: str) -> int:
    """The page of a rule or error."""
    found = page_of(code, call.registry)
    if call.output.form == "table":
        lines = [f"{found['id']}: {found['text']}", "", found["help"]]
        lines += ["", f"Backends: {', '.join(found['backends'])}"] if found["backends"] else []
        lines += ["", f"Source: {found['source']}"] if found["source"] else []
        call.output.text("\n".join(lines))
    else:
        call.output.document(found)
    return 0


def page_of(code: str, registry: Registry) -> dict[str, Any]:
    """``fmha.rule/1`` of an id.

    Raises:
        UsageError: no such rule or error, with near ids.
    """
    from fmha_cli.cli.codes import pages

    errors = pages()
    wanted = code.upper()
    owners = [b for b in registry.backends.values() for rule in b.rules() if rule.id == wanted]
    rules = {rule.id: rule for backend in registry.backends.values() for rule in backend.rules()}
    if wanted in rules:
        rule = rules[wanted]
        help, source = rule.help or rule.text, rule.source or None
        return _page(wanted, rule.text, help, source, sorted({b.name for b in owners}))
    if wanted not in errors:
        raise UsageError(
            f"{code}: no such rule or error", code="E012", help=suggest(wanted, [*rules, *errors]), where="explain"
        )
    text, help = errors[wanted]
    return _page(wanted, text, help, None, [])


def _page(id: str, text: str, help: str, source: str | None, backends: list[str]) -> dict[str, Any]:
    return {"backends": backends, "help": help, "id": id, "schema": "fmha.rule/1", "source": source, "text": text}


COMMAND = Command(
    explain,
    options=(*ROOM, *FILES[:4], CACHE_DIR, *ROWS),
    arguments=(Argument("rule", "Id of a rule or error (K012, P006): print its page instead"),),
    detail="Shows every candidate kernel of every backend, ranked, with all reasons against those that do not fit, "
    "and the smallest change that would work.",
)
