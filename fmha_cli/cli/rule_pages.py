"""``fmha explain K012`` and ``fmha explain --rules``: the pages of rules and errors."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.failure import error_pages
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.codec import taken_from
from fmha_cli.domain.errors import EmptySelection, UsageError
from fmha_cli.domain.protocols import Explained
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.documents.pages import Rulebook, RulePage, RuleRow
from fmha_cli.report.fitting import folded


def page(call: CliCall, code: str) -> None:
    """Print the page of a rule or error.

    Raises:
        UsageError: no such rule or error, with near ids.
    """
    found = page_of(code, call.registry)
    if call.output.form == "table":
        lines = [f"{found.id}: {found.text}"]
        lines += ["", found.help] if found.help else []
        lines += ["", f"Backends: {', '.join(found.backends)}"] if found.backends else []
        lines += ["", f"Source: {found.source}"] if found.source else []
        call.output.text("\n".join("\n".join(folded(line, call.output.width, hang=0)) for line in lines))
    else:
        call.output.document(found)


def page_of(code: str, registry: Registry) -> RulePage:
    """``fmha.rule/1`` of an id in capitals or small letters.

    Raises:
        UsageError: no such rule or error, with near ids.
    """
    found = all_pages(registry)
    if code.upper() in found:
        return found[code.upper()]
    help = suggest(code.upper(), found, otherwise="`fmha explain --rules` lists every id")
    raise UsageError(f"{code}: no such rule or error", code="E012", help=help, where="explain")


def all_pages(registry: Registry) -> dict[str, RulePage]:
    """Every page by id, sorted: the rules of the backends, and the errors."""
    owners: dict[str, set[str]] = {}
    for backend in registry.backends.values():
        for rule in backend.rules():
            owners.setdefault(rule.id, set()).add(backend.name)
    found = {
        code: RulePage(id=code, text=t, help=h, source=None, backends=()) for code, (t, h) in error_pages().items()
    }
    for backend in registry.backends.values():
        for code, (t, h) in backend.errors.items() if isinstance(backend, Explained) else ():
            found[code] = RulePage(id=code, text=t, help=h, source=None, backends=(backend.name,))
    for id, rule in registry.rules().items():
        backends = tuple(sorted(owners[id]))
        found[id] = RulePage(id=id, text=rule.text, help=rule.help, source=rule.source or None, backends=backends)
    return dict(sorted(found.items()))


def rulebook(call: CliCall, start: str) -> Rulebook:
    """Every page whose id begins with some letters and digits.

    Raises:
        EmptySelection: none does.
    """
    pages = [page for id, page in all_pages(call.registry).items() if id.startswith(start.upper())]
    if not pages:
        what = f"no rule or error begins with {start}"
        raise EmptySelection(what, code="E012", where="explain", help="`fmha explain --rules` lists every id")
    return Rulebook(rules=tuple(taken_from(page, RuleRow) for page in pages))
