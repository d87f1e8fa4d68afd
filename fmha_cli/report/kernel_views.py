"""Tables of the documents about kernels: list-kernels, explain, plan, inspect, and errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fmha_cli.report.records_view import problem_text
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell, size

Document = Mapping[str, Any]
SHORT = 8
"""Digits of a digest that ``--kernel`` takes at least."""

_MOST_REFUSALS = 20


def error_view(document: Document) -> Table:
    """The error, a line for each of its parts."""
    error = document["error"]
    rows = [[key, cell(error[key])] for key in ("where", "why", "help") if error[key]]
    return Table(["", ""], rows, f"error[{error['code']}]: {error['what']}")


def kernels_view(document: Document) -> Table:
    """One line a kernel; signature and algorithm as in its name."""
    rows = []
    for kernel in document["kernels"]:
        _, _, _, signature, algorithm = kernel["name"].split(":", 4)
        built = "" if kernel["buildable"] else "no: " + "; ".join(r["id"] for r in kernel["reasons"])
        named = kernel["upstream_name"] or ""
        rows.append([kernel["digest"][:SHORT], kernel["backend"], kernel["family"], signature, algorithm, named, built])
    headers = ["digest", "backend", "family", "signature", "algorithm", "upstream name", "buildable"]
    where = f" for {document['arch']}" if document["arch"] else ""
    count = document["count"]
    return Table(headers, rows, f"{count} {'kernel' if count == 1 else 'kernels'}{where}").narrowed()


def explain_view(document: Document) -> Table:
    """Supported kernels by rank, then the nearest refusals with every reason."""
    rows, details = [], []
    refused = 0
    for decision in document["decisions"]:
        name = _short(decision["kernel"])
        if decision["supported"]:
            rows.append([str(decision["rank"]), decision["backend"], decision["arch"], name, "yes", ""])
            continue
        refused += 1
        if refused > _MOST_REFUSALS:
            continue
        for i, reason in enumerate(decision["reasons"]):
            lead = ["", "", "", "", ""] if i else ["", decision["backend"], decision["arch"], name, "no"]
            hint = f" (help: {reason['hint']})" if reason["hint"] else ""
            rows.append([*lead, f"{reason['id']} {reason['text']}{hint}"])
    if refused > _MOST_REFUSALS:
        details.append(f"... and {refused - _MOST_REFUSALS} further refusals; --json shows all")
    served = len(document["decisions"]) - refused
    chosen = f"chosen: {document['chosen']}" if document["chosen"] else "no kernel serves this problem"
    summary = f"{problem_text(document['problem'])}: {served} supported, {refused} refused; {chosen}"
    headers = ["rank", "backend", "arch", "kernel", "supported", "reasons"]
    return Table(headers, rows, summary, details, frozenset(["rank"])).narrowed()


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
    details = [f"workspace {w['name']}: {size(w['bytes'])}" for w in document["workspaces"]]
    details += [f"{r['id']} {r['text']}" + (f" (help: {r['hint']})" if r["hint"] else "") for r in document["reasons"]]
    summary = problem_text(document["problem"])
    if document["kernel"] is None:
        return Table([], [], f"{summary}: no kernel serves this problem", details)
    summary += f": {len(rows)} stages, {size(document['predicted_bytes'])} of memory"
    headers = ["stage", "family", "digest", "kernel", "detail"]
    return Table(headers, rows, summary, details, frozenset(["stage"])).narrowed()


def inspect_view(document: Document) -> Table:
    """One line a figure; instruction counts largest first."""
    open_members = ("schema", "kernel", "artifact", "instructions", "details")
    rows = [[key, cell(value)] for key, value in document.items() if key not in open_members and value is not None]
    rows += [[key, cell(value)] for key, value in sorted(document["details"].items())]
    counts = sorted((document["instructions"] or {}).items(), key=lambda item: (-item[1], item[0]))
    rows += [[f"  {mnemonic}", str(count)] for mnemonic, count in counts]
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
