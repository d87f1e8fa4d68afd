"""The table of ``fmha parity``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fmha_cli.report.table import Table
from fmha_cli.report.units import digits

Document = Mapping[str, Any]

_QUIET = ("v", "kname", "warmup", "repeat")
"""Settings that every case of a suite shares and that describe no problem."""


def parity_view(document: Document) -> Table:
    """One line a case; why it is no agreement below."""
    rows: list[list[str]] = []
    details: dict[str, list[int]] = {}
    listed = all(case["outcome"] in (None, "not-comparable") and not case["upstream"] for case in document["cases"])
    for number, case in enumerate(document["cases"], 1):
        settings = " ".join(f"{k}={v}" for k, v in case["settings"].items() if k not in _QUIET)
        ratio = case["times"]["ratio"] if case["times"] else None
        rows.append(
            [
                str(number),
                case["name"],
                case["program"],
                settings,
                case["outcome"] or "",
                "" if ratio is None else digits(ratio["median_ns"] / 1000),
                "" if ratio is None else digits(ratio["ratio"] * ratio["median_ns"] / 1000),
                _ratio(ratio),
            ]
        )
        for line in (*case["why"], *(() if listed else case["notes"]), *_again(case)):
            details.setdefault(line, []).append(number)
    headers = ["#", "case", "program", "settings", "outcome", "upstream [us]", "ours [us]", "ours / upstream"]
    numbers = frozenset({"#", "upstream [us]", "ours [us]"})
    said = [f"  {_ranges(those)}: {line}" for line, those in details.items()]
    return Table(headers, rows, _summary(document), said, numbers).narrowed(["#", "case"])


def _again(case: Mapping[str, Any]) -> list[str]:
    """How to see a case again on either side, where something is wrong with it."""
    if case["outcome"] not in ("we-fail", "they-fail", "agree-fail", "crashed", "timed-out"):
        return []
    ours = [f"again: {case['ours']['repro']}"] if case["ours"] else []
    theirs = case["upstream"]
    if not theirs:
        return ours
    variables = [f"{name}={value}" for name, value in theirs["variables"].items()]
    return [*ours, f"again, upstream: {' '.join([*variables, *theirs['argv']])}"]


def _ranges(numbers: list[int]) -> str:
    """``1-3, 7``: what is said of several cases is said once."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


def _ratio(ratio: Mapping[str, Any] | None) -> str:
    if ratio is None:
        return ""
    ends = ratio["ratio_ci95"]
    return f"{ratio['ratio']:.3f}" + ("" if ends is None else f" ({ends[0]:.3f}-{ends[1]:.3f})")


def _summary(document: Document) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in document["counts"].items() if count)
    cases = document["cases"]
    sources = "; ".join(f"{s['file']} ({s['revision']})" for s in document["suite"]["sources"])
    total = f"{len(cases)} {'case' if len(cases) == 1 else 'cases'}"
    return f"{document['suite']['name']}: {total}{': ' if counts else ''}{counts}\nfrom {sources or 'the suite file'}"


VIEWS = {"parity": parity_view}
"""Schema name -> view."""
