"""Tables of inspected kernels: one, many, and two side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fmha_cli.report.kernel_views import SHORT
from fmha_cli.report.table import Table
from fmha_cli.report.units import cell, duration, size

Document = Mapping[str, Any]

_MOST_INSTRUCTIONS = 20
_FIGURES = ("registers", "spills", "lds_bytes", "shared_bytes", "occupancy", "vector_bits", "matrix_instructions")
_LATER = ("why", "kernels")
_MARK = "*"


def inspect_view(document: Document) -> Table:
    """One line a figure; the most frequent instructions; each GPU kernel of a library that holds several."""
    rows = [[name.replace("_", " "), _value(name, document[name])] for name in _FIGURES if document[name] is not None]
    details = document["details"]
    rows += [
        ["compile memory" if key == "compile_peak_bytes" else key.replace("_", " "), _value(key, value)]
        for key, value in details.items()
        if value is not None and key not in _LATER
    ]
    if document["artifact"] is not None:
        rows.append(["build time", duration(document["artifact"]["build_ns"])])
    counts = sorted((document["instructions"] or {}).items(), key=lambda item: (-item[1], item[0]))
    rows += [[f"instruction {mnemonic}", str(count)] for mnemonic, count in counts[:_MOST_INSTRUCTIONS]]
    if len(counts) > _MOST_INSTRUCTIONS:
        rest = sum(count for _, count in counts[_MOST_INSTRUCTIONS:])
        rows.append([f"{len(counts) - _MOST_INSTRUCTIONS} other instructions", str(rest)])
    several = details.get("kernels") or []
    lines = [f"GPU kernel {i} of {len(several)}: {cell(_short(k))}" for i, k in enumerate(several, 1)]
    lines = lines if len(several) > 1 else []
    lines += [f"no instruction counts: {details['why']}"] if details.get("why") else []
    return Table(["what", "value"], rows, document["kernel"]["name"], lines)


def _short(kernel: Document) -> dict[str, Any]:
    return {key: value for key, value in kernel.items() if key != "symbol" and value is not None}


def inspections_view(document: Document) -> Table:
    """One line a kernel; columns that no kernel has are left out; errors below."""
    rows, details = [], []
    names = list(document["kernels"][0]["figures"]) if document["kernels"] else []
    compilers = {row["figures"]["compiler"] for row in document["kernels"]} - {None}
    shown = [name for name in names if name != "compiler" or len(compilers) > 1]
    for row in document["kernels"]:
        kernel, error = row["kernel"], row["error"]
        named = kernel["upstream_name"] or kernel["name"].split(":", 3)[3]
        figures = [_value(name, row["figures"][name]) for name in shown]
        rows.append([kernel["digest"][:SHORT], kernel["family"], row["arch"], *figures, named])
        if error:
            details.append(f"  {kernel['digest'][:SHORT]}: error[{error['code']}]: {error['what']}")
        elif row["why"]:
            details.append(f"  {kernel['digest'][:SHORT]}: no instruction counts: {row['why']}")
    count = document["count"]
    summary = f"{count} {'kernel' if count == 1 else 'kernels'}"
    summary += f", {document['failed']} not built" if document["failed"] else ""
    summary += f"; compiler: {', '.join(sorted(compilers))}" if len(compilers) == 1 else ""
    headers = ["digest", "family", "arch", *(_header(name) for name in shown), "kernel"]
    numbers = frozenset(_header(name) for name in shown if name not in ("limited_by", "compiler"))
    return Table(headers, rows, summary, details, numbers).narrowed()


def differences_view(document: Document) -> Table:
    """Fields, figures and instructions side by side; a mark on what differs, its change beside it."""
    rows = []
    for row in document["rows"]:
        if row["kind"] == "instruction" and not row["differs"]:
            continue
        name = row["name"] if row["kind"] == "instruction" else row["name"].replace("_", " ")
        left, right = row["left"], row["right"]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (left, right))
        change = f"{right - left:+.6g}" if numbers and row["differs"] and not row["name"].endswith("_ns") else ""
        mark = _MARK if row["differs"] else ""
        rows.append([mark, row["kind"], name, _value(row["name"], left), _value(row["name"], right), change])
    sides = [document["left"], document["right"]]
    details = [
        f"{side}: {found['kernel']['name']}" + (f", {found['compiler']}" if found["compiler"] else "")
        for side, found in zip(("left", "right"), sides, strict=True)
    ]
    details += [f"{found['arch']}: no instruction counts: {found['why']}" for found in sides if found["why"]]
    same = sum(1 for row in document["rows"] if row["kind"] == "instruction" and not row["differs"])
    summary = f"{document['differing']} of {len(document['rows'])} differ"
    summary += f"; {same} mnemonics with equal counts are not shown" if same else ""
    headers = ["", "what", "name", "left", "right", "change"]
    return Table(headers, rows, summary, details, frozenset(["left", "right", "change"])).narrowed([""])


def _header(name: str) -> str:
    return (
        name.replace("_instructions", "").replace("instruction_count", "instr.").removesuffix("_ns").replace("_", " ")
    )


def _value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ns"):
        return duration(value)
    if name == "compile_peak_bytes":
        return size(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else cell(value)


VIEWS: Mapping[str, Callable[[Document], Table]] = MappingProxyType(
    {"differences": differences_view, "inspect": inspect_view, "inspections": inspections_view}
)
"""Schema name -> view."""
