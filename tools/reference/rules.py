"""``rules.md`` and ``errors.md``: every id that ``fmha explain ID`` knows."""

from __future__ import annotations

from collections.abc import Iterable

from fmha_cli.cli.rule_pages import all_pages
from fmha_cli.domain.rules import CORE_RULES, Severity
from fmha_cli.report.documents.pages import RulePage

from .docstrings import member_texts
from .installation import STAND_INS, registry
from .markdown import code, page, plain, section, table


def pages() -> dict[str, str]:
    """The pages of rules and of errors."""
    found = all_pages(registry())
    rules = registry().rules()
    return {"rules.md": _rules([found[id] for id in sorted(rules)]), "errors.md": _errors(found, rules)}


def _rules(found: list[RulePage]) -> str:
    core = {rule.id for rule in CORE_RULES}
    groups: dict[str, list[RulePage]] = {"Every backend": [p for p in found if p.id in core]}
    for one in (p for p in found if p.id not in core):
        groups.setdefault(", ".join(one.backends), []).append(one)
    about = (
        "A rule says which kernels serve a problem. A refusal names the rule's id, and `fmha explain ID` prints what stands "
        "here. A backend that a rule does not name either never needs it or refuses nothing by it."
    )
    severities = member_texts(Severity)
    nearness = table(
        ("severity", "to make the kernel fit"), ((code(s.name.lower()), plain(severities[s.name])) for s in Severity)
    )
    index = table(
        ("rules of", "ids"),
        ((name, f"{group[0].id} to {group[-1].id}: {len(group)}") for name, group in groups.items()),
    )
    parts = [section(name, *(_rule(one, core=one.id in core) for one in group)) for name, group in groups.items()]
    return page("Rules", about, index, section("How far a kernel is from fitting", nearness), *parts)


def _rule(found: RulePage, *, core: bool) -> str:
    severity = registry().rules()[found.id].severity.name.lower()
    named = [name for name in found.backends if name not in STAND_INS]
    backends = f"Backends: {', '.join(named)}." if core else ""
    facts = f"Severity: {severity}. {backends} Source: {plain(found.source or 'none')}."
    return section(found.id, _stated(found), " ".join(facts.split()).replace("..", "."), level=3)


def _errors(found: dict[str, RulePage], rules: Iterable[str]) -> str:
    errors = [page for id, page in found.items() if id not in set(rules)]
    about = (
        "An error has an id, says what is wrong, where and why, and what to do. `fmha explain ID` prints what stands here. "
        "Refusals by a rule are on the page of [rules](rules.md)."
    )
    letters = dict.fromkeys(one.id[0] for one in errors)
    groups = ([one for one in errors if one.id[0] == letter] for letter in letters)
    parts = [section(f"{group[0].id} to {group[-1].id}", *(_error(one) for one in group)) for group in groups]
    return page("Errors", about, *parts)


def _error(found: RulePage) -> str:
    backends = f"Backend: {', '.join(found.backends)}." if found.backends else ""
    return section(found.id, _stated(found), backends, level=3)


def _stated(found: RulePage) -> str:
    first, _, rest = found.text.partition(" ")
    text = f"{first.capitalize() if first.isalpha() and first.islower() else first} {rest}".strip()
    return f"**{plain(text)}.** {plain(found.help)}".strip()
