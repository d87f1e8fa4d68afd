"""Tables of the documents about kernels: list-kernels, explain, plan, inspect, and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fmha_cli.report.records_view import problem_text, reason_text
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell, size

Document = Mapping[str, Any]
SHORT = 8
"""Digits of a digest that ``--kernel`` takes at least."""

_MOST_REFUSALS = 20
_MOST_INSTRUCTIONS = 20


def error_view(document: Document) -> Table:
    """The error, a line for each of its parts."""
    error = document["error"]
    rows = [[key, cell(error[key])] for key in ("where", "why", "help") if error[key]]
    return Table(["part", "text"], rows, f"error[{error['code']}]: {error['what']}")


def kernels_view(document: Document) -> Table:
    """One line a kernel; a column for each part of the signature in which the kernels differ."""
    kernels = document["kernels"]
    apart, same = _differing([kernel["signature"] for kernel in kernels])
    shown = [*_ALWAYS, *(name for name in apart if name not in _ALWAYS)]
    rows = []
    for kernel in kernels:
        algorithm = kernel["name"].split(":", 4)[4]
        built = "" if kernel["buildable"] else "no: " + " ".join(r["id"] for r in kernel["reasons"])
        facts = [cell(kernel["signature"][name]) for name in shown]
        named = kernel["upstream_name"] or ""
        rows.append([kernel["digest"][:SHORT], kernel["backend"], kernel["family"], *facts, algorithm, named, built])
    headers = ["digest", "backend", "family", *shown, "algorithm", "upstream name", "buildable"]
    alike = " ".join(
        f"{name}={cell(value)}" for name, value in same.items() if name not in _ALWAYS and value not in _OFF
    )
    details = [f"in all of them: {alike}"] if alike and kernels else []
    where = f" for {document['arch']}" if document["arch"] else ""
    count = document["count"]
    return Table(headers, rows, f"{count} {'kernel' if count == 1 else 'kernels'}{where}", details).narrowed()


_ALWAYS = ("dtype", "hdim")
_OFF = ("no", "none", 0)


def _differing(signatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """Names of the members that are not the same everywhere, and the others with their value."""
    first = signatures[0] if signatures else {}
    apart = [name for name in first if any(other[name] != first[name] for other in signatures)]
    return apart, {name: value for name, value in first.items() if name not in apart}


def explain_view(document: Document) -> Table:
    """Supported kernels by rank, then the refusals, nearest first; kernels refused for the same reasons share a line."""
    rows, details = [], []
    for decision in document["decisions"]:
        if decision["supported"]:
            rows.append([str(decision["rank"]), decision["backend"], decision["arch"], _short(decision["kernel"]), ""])
    groups = _refusals(document["decisions"])
    for (backend, arch, reasons), names in list(groups.items())[:_MOST_REFUSALS]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        rows.append(["", backend, arch, f"{_short(names[0])}{more}", reasons[0]])
        rows += [["", "", "", "", reason] for reason in reasons[1:]]
    if len(groups) > _MOST_REFUSALS:
        details.append(f"... and {len(groups) - _MOST_REFUSALS} further refusals; --json shows all")
    refused = sum(len(names) for names in groups.values())
    served = len(document["decisions"]) - refused
    chosen = f"chosen: {document['chosen']}" if document["chosen"] else "no kernel serves this problem"
    chosen += f"; it would with {document['change']}" if document["change"] else ""
    summary = f"{problem_text(document['problem'])}: {served} supported, {refused} refused; {chosen}"
    headers = ["rank", "backend", "arch", "kernel", "reasons against it"]
    return Table(headers, rows, summary, details, frozenset(["rank"])).narrowed()


def _refusals(decisions: Sequence[Document]) -> dict[tuple[str, str, tuple[str, ...]], list[str | None]]:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}
    for decision in decisions:
        if not decision["supported"]:
            reasons = tuple(reason_text(reason) for reason in decision["reasons"])
            groups.setdefault((decision["backend"], decision["arch"], reasons), []).append(decision["kernel"])
    return groups


def _short(name: str | None) -> str:
    """Family, signature and algorithm of a name (backend and architecture stand beside it)."""
    if name is None:
        return "(all)"
    _, family, _, signature, algorithm = name.split(":", 4)
    return " ".join(part for part in (family, signature, algorithm) if part)


def plan_view(document: Document) -> Table:
    """Stages in launch order, workspaces below, memory in the summary."""
    rows = [
        [str(i), stage["family"], stage["digest"][:SHORT], _short(stage["kernel"]), cell(stage["detail"])]
        for i, stage in enumerate(document["stages"], 1)
    ]
    details = [f"  workspace {w['name']}: {size(w['bytes'])}" for w in document["workspaces"]]
    details += [reason_text(reason) for reason in document["reasons"]]
    summary = problem_text(document["problem"])
    if document["kernel"] is None:
        return Table([], [], f"{summary}: no kernel serves this problem", details)
    summary += f": {len(rows)} stages, {size(document['predicted_bytes'])} of memory"
    headers = ["stage", "family", "digest", "kernel", "detail"]
    return Table(headers, rows, summary, details, frozenset(["stage"])).narrowed()


def inspect_view(document: Document) -> Table:
    """One line a figure; the most frequent instructions."""
    figures = ("registers", "spills", "lds_bytes", "shared_bytes", "occupancy", "vector_bits", "matrix_instructions")
    rows = [[name.replace("_", " "), cell(document[name])] for name in figures if document[name] is not None]
    rows += [[key.replace("_", " "), cell(value)] for key, value in document["details"].items()]
    counts = sorted((document["instructions"] or {}).items(), key=lambda item: (-item[1], item[0]))
    rows += [[f"instruction {mnemonic}", str(count)] for mnemonic, count in counts[:_MOST_INSTRUCTIONS]]
    if len(counts) > _MOST_INSTRUCTIONS:
        rest = sum(count for _, count in counts[_MOST_INSTRUCTIONS:])
        rows.append([f"{len(counts) - _MOST_INSTRUCTIONS} other instructions", str(rest)])
    return Table(["what", "value"], rows, document["kernel"]["name"])


VIEWS: Mapping[str, Callable[[Document], Table]] = MappingProxyType(
    {
        "error": error_view,
        "explain": explain_view,
        "inspect": inspect_view,
        "kernels": kernels_view,
        "plan": plan_view,
    }
)
"""Schema name -> view."""
