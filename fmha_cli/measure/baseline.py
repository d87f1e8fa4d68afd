"""The comparison of a run with an earlier report (``bench --baseline FILE``): has anything become slower?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.encode import canonical_json
from fmha_cli.domain.errors import UsageError
from fmha_cli.measure.compare import Ratio

REGRESSION = 0.05
"""A row is a regression if it is certainly slower than the baseline by more than this share. The interval covers only the
noise within each run. Between runs, clock, memory placement and neighbours shift a median by a few per cent more."""

_SAME = ("problem", "backend", "device", "arch")
_CONDITIONS = ("cache", "threads")


@dataclass(frozen=True)
class Baseline:
    """The timed rows of an earlier report by what was measured; ``name`` is the name that rows use for it."""

    name: str
    rows: Mapping[str, Sequence[Mapping[str, Any]]]

    def ratio(self, record: Mapping[str, Any]) -> Ratio | None:
        """The comparison of a timed row (``Record.to_dict()``) with its counterpart; None without one.

        Rows correspond when problem, backend, device, architecture, cache mode and threads are the same. Of several
        (``--all-kernels``) the one with the same kernel name counts. A kernel that was renamed since is compared only
        if exactly one row corresponds.
        """
        if record["measurement"] is None:
            return None
        found = self.rows.get(_key(record), ())
        same = [row for row in found if _kernel_name(row) == _kernel_name(record)]
        row = same[0] if same else found[0] if len(found) == 1 else None
        if row is None:
            return None
        mine, other = record["measurement"]["samples_ns"], row["measurement"]["samples_ns"]
        return Ratio.of(mine, other, against=self.name, paired=False, tolerance=REGRESSION)


def load_baseline(path: Path) -> Baseline:
    """The timed rows of a report that ``--json`` or ``--jsonl`` wrote.

    Raises:
        UsageError: it cannot be read, is not a report, or holds no timed row.
    """
    try:
        text = path.read_text("utf-8")
        records = _records(text)
        timed = [r for r in records if r["measurement"] is not None and not is_emulated(r["device"])]
        rows: dict[str, list[Mapping[str, Any]]] = {}
        for record in timed:
            rows.setdefault(_key(record), []).append(record)
            if not all(isinstance(sample, int) for sample in record["measurement"]["samples_ns"]):
                raise ValueError("samples that are not integers")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise _unusable(path, str(fault) or type(fault).__name__) from fault
    if not timed:
        raise _unusable(path, "it holds no timed row")
    return Baseline(path.name, rows)


def _records(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        document = json.loads(text)
    except ValueError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    else:
        rows = document["records"] if document["schema"] == "fmha.report/1" else [document]
    for row in rows:
        if row["schema"] not in ("fmha.record/1", "fmha.record/2"):
            raise ValueError(f"a row of schema {row['schema']}")
    return rows


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--baseline {path}: not a report of fmha bench",
        code="E040",
        where="--baseline",
        why=why,
        help="fmha bench ... --json -o FILE writes one",
    )


def _key(record: Mapping[str, Any]) -> str:
    """The properties that must be the same for two rows to be compared."""
    conditions = {name: record["measurement"][name] for name in _CONDITIONS}
    return canonical_json({**{name: record[name] for name in _SAME}, **conditions})


def _kernel_name(record: Mapping[str, Any]) -> str | None:
    kernel = record["kernel"]
    return None if kernel is None else str(kernel["name"])
