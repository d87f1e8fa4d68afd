"""Tables of the pages about the CPU, and about sessions of Python callers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from tools.result_data import data_of, grouped, spread, table


def cpu(page: str, place: int) -> str:
    """A printed table of a CPU page, one line for a regime: least and largest figure of its cells."""
    found = data_of("cpu_tables")[page][place]
    columns, floors = found["columns"], found["columns"][-1] == ""
    ratio = next(at for at, name in enumerate(columns) if name.startswith("time of peer"))
    lines = []
    for regime, rows in grouped(found["rows"], lambda row: _regime(row[0])).items():
        unit = rows[0][2].partition(" ")[2]
        shares = [float(part[0]) for row in rows if (part := re.match(r"\d+", row[3]))]
        lines.append(
            (
                regime,
                len(rows),
                f"{spread(float(row[2].partition(' ')[0]) for row in rows)} {unit}",
                f"{spread(shares)} %" if shares else "",
                _ratios(row[ratio] for row in rows),
                *([f"{sum(row[-1] == 'met' for row in rows)} of {len(rows)}"] if floors else []),
            )
        )
    head = ("regime", "cells", "rate", "share of the ceiling", "time of a peer / ours, or ours / base")
    return table((*head, *(["floors met"] if floors else [])), lines)


def _regime(text: str) -> str:
    text = re.sub(r" S=\d+$", "", text) if text.startswith("fp32 causal S=") else text
    text = re.sub(r"^(fp8_e4m3|fp8_e5m2|int8) cache", "8-bit cache", text)
    text = re.sub(r"^(GQA|packed) against plain", "GQA, packed against plain", text)
    text = re.sub(r"^(fwd|bwd) 2 threads", "2 threads", re.sub(r"^one small call (fp32|bf16)", "one small call", text))
    text = re.sub(r"^pages of 16 (fp32|bf16) ", "pages of 16 ", text)
    return re.sub(r"^time per pair (full|causal) ", "time per pair ", text)


def _ratios(cells: Iterable[str]) -> str:
    """For each peer the least and largest ratio; of the base, those of our time over its."""
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        for part in re.sub(r" \([^)]*\)", "", cell).split(", "):
            if name := re.match(r"(?:(.*) )?x([\d.]+)", part):
                found[name[1] or "base"].append(float(name[2]))
    ends = {name: dict.fromkeys((f"{min(values):.2f}", f"{max(values):.2f}")) for name, values in found.items()}
    return ", ".join(f"{name} {'–'.join(both)}" for name, both in ends.items())


def session_times() -> str:
    """Medians of the calls that took turns, with their quartiles and their share of the first or the last of them."""
    found = data_of("sessions")["sessions"]
    lines = []
    for part, base in (("prefill", "torch"), ("decode", None), ("repeated", "api.attention, 769407875")):
        of = found[part]
        # of several forms of PyTorch, the best
        best = (
            of[base]["median"] if base else min(row["median"] for name, row in of.items() if name.startswith("torch"))
        )
        for name, row in of.items():
            ends = f"{row['low']:.0f}–{row['high']:.0f}"
            lines.append((part, name, f"{row['median']:.0f}", ends, f"{row['median'] / best:.2f}"))
    return table(("", "call", "median [us]", "quartiles", "share"), lines)


def session_leavings() -> str:
    """What many calls leave behind."""
    return table(
        ("", "after 500 calls", "after 10,000 more"),
        ((n, *of) for n, of in data_of("sessions")["sessions"]["leavings"].items()),
    )
