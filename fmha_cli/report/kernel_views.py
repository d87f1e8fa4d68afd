"""Tables of the documents about kernels: list-kernels, explain, plan, and errors."""

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
_MOST_BESIDE = 5  # when some kernel serves the problem, refusals matter less


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
    """Supported kernels by rank; below, the refusals, nearest first, kernels refused for the same reasons together."""
    decisions = document["decisions"]
    label = _labels([decision["kernel"] for decision in decisions if decision["kernel"]])
    served = [d for d in decisions if d["supported"]]
    rows = [[str(d["rank"]), d["backend"], d["arch"], label[d["kernel"]]] for d in served]
    groups = _refusals(decisions)
    most = _MOST_REFUSALS if not served else _MOST_BESIDE
    details = ["refused, nearest first:"] if groups else []
    for (backend, arch, reasons), names in list(groups.items())[:most]:
        first = "every kernel" if names[0] is None else label[names[0]]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        details.append(f"  {backend} {arch} {first}{more}")
        details += [f"    {reason}" for reason in reasons]
    if len(groups) > most:
        details.append(f"  ... and {len(groups) - most} further refusals; --json shows all")
    details += [f"chosen: {document['chosen']}"] if document["chosen"] else []
    summary = f"{problem_text(document['problem'])}: {len(served)} supported, {len(decisions) - len(served)} refused"
    summary += "" if document["chosen"] else "; no kernel serves this problem"
    summary += f"; it would with {document['change']}" if document["change"] else ""
    return Table(["rank", "backend", "arch", "kernel"], rows, summary, details, frozenset(["rank"]))


def _refusals(decisions: Sequence[Document]) -> dict[tuple[str, str, tuple[str, ...]], list[str | None]]:
    """Refused kernels by backend, architecture and reasons, in the order of the document."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str | None]] = {}
    for decision in decisions:
        if not decision["supported"]:
            reasons = tuple(reason_text(reason) for reason in decision["reasons"])
            groups.setdefault((decision["backend"], decision["arch"], reasons), []).append(decision["kernel"])
    return groups


def _labels(names: Sequence[str]) -> dict[str, str]:
    """Each kernel's family and what tells it from the others; backend and architecture stand beside it.

    Parts that all kernels share are left out where there are several, and so is what a kernel leaves open.
    """
    parts = {}
    for name in names:
        _, family, _, signature, algorithm = name.split(":", 4)
        pairs = [pair for pair in (*signature.split(","), *algorithm.split(",")) if not pair.endswith("=any")]
        parts[name] = [family, *filter(None, pairs)]
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    return {name: " ".join([own[0], *(part for part in own[1:] if part not in shared)]) for name, own in parts.items()}


def plan_view(document: Document) -> Table:
    """Stages in launch order with their grids; what else is known of each, and the workspaces, below."""
    rows, details = [], []
    for i, stage in enumerate(document["stages"], 1):
        name = stage["kernel"]
        more = dict(stage["detail"])
        rows.append([str(i), stage["digest"][:SHORT], _labels([name])[name], cell(more.pop("grid", ""))])
        details += [f"  stage {i}, {key}: {cell(value)}" for key, value in more.items()]
    details += [f"  workspace {w['name']}: {size(w['bytes'])}" for w in document["workspaces"]]
    details += [reason_text(reason) for reason in document["reasons"]]
    summary = problem_text(document["problem"])
    if document["kernel"] is None:
        return Table([], [], f"{summary}: no kernel serves this problem", details)
    summary += f": {len(rows)} {'stage' if len(rows) == 1 else 'stages'}, {size(document['predicted_bytes'])} of memory"
    headers = ["stage", "digest", "kernel", "grid"]
    return Table(headers, rows, summary, details, frozenset(["stage"])).narrowed()


VIEWS: Mapping[str, Callable[[Document], Table]] = MappingProxyType(
    {
        "error": error_view,
        "explain": explain_view,
        "kernels": kernels_view,
        "plan": plan_view,
    }
)
"""Schema name -> view."""
