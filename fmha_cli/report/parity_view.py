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
    rows, details = [], []
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
        details += [f"  {number}: {line}" for line in (*case["why"], *(() if listed else case["notes"]))]
        if case["outcome"] in ("we-fail", "they-fail", "agree-fail", "crashed", "timed-out") and case["ours"]:
            details.append(f"  {number}: again: {case['ours']['repro']}")
        if case["outcome"] in ("we-fail", "they-fail", "agree-fail", "crashed", "timed-out") and case["upstream"]:
            details.append(f"  {number}: upstream: {' '.join(case['upstream']['argv'])}")
    headers = ["#", "case", "program", "settings", "outcome", "upstream [us]", "ours [us]", "ours / upstream"]
    numbers = frozenset({"#", "upstream [us]", "ours [us]"})
    return Table(headers, rows, _summary(document), details, numbers).narrowed(["#", "case"])


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
