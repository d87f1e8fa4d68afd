"""The refusals below the table of ``explain``: kernels with the same reasons together, nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fmha_cli.report.lines import DIGITS, counted, labels, reason_text

Row = Mapping[str, Any]
Groups = dict[tuple[str, str, tuple[str, ...]], list[Row]]


def refusals(decisions: Sequence[Row]) -> Groups:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: Groups = {}
    texts: dict[tuple[str, str, str | None], str] = {}
    for decision in decisions:
        if not decision["supported"]:
            reasons = []
            for reason in decision["reasons"]:
                key = reason["id"], reason["text"], reason["hint"]
                if key not in texts:
                    texts[key] = reason_text(reason)
                reasons.append(texts[key])
            groups.setdefault((decision["backend"], decision["arch"], tuple(reasons)), []).append(decision)
    return groups


def refused(groups: Groups, most: int, *, every: bool) -> Iterator[str]:
    """The groups, nearest first. Without ``every``, a group whose reasons include all those of a nearer one is left
    out, because it says nothing new."""
    if groups:
        yield "refused, nearest first:"
    shown: list[tuple[str, frozenset[str]]] = []
    for (backend, arch, reasons), members in groups.items():
        if not every:
            if len(shown) == most:
                break
            if any(backend == nearer and known <= set(reasons) for nearer, known in shown):
                continue
            shown.append((backend, frozenset(reasons)))
        yield f"  {backend} {arch} {_named(members)}"
        yield from (f"    {reason}" for reason in reasons)
        if every and members[0]["kernel"]:
            label = labels([d["kernel"] for d in members])
            yield from (f"      {d['digest'][:DIGITS]} {label[d['kernel']]}" for d in members)
    if not every and len(groups) > len(shown):
        yield f"  ... and {counted(len(groups) - len(shown), 'further group')}; --all shows every candidate"


def _named(members: Sequence[Row]) -> str:
    """``fwd 08ebe6051a2b and 3 more``; a refusal of a whole backend has no kernel."""
    first = members[0]
    if first["kernel"] is None:
        return "every kernel"
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{first['kernel'].split(':')[1]} {first['digest'][:DIGITS]}{more}"
