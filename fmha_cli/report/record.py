"""``Record``: one JSON row (``fmha.record/1``), for every row that was asked for.

A record holds plain values and domain nouns that need no backend to be read, so that a journal can be
resumed where a plugin is gone. Keys are sorted; absent data is null, never missing.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fmha_cli.errors import InternalError
from fmha_cli.measure.compare import Ratio
from fmha_cli.measure.measurement import Measurement
from fmha_cli.report.finite import nulled, restored
from fmha_cli.report.rows import (
    Inputs,
    KernelRow,
    StageRow,
    comparison_dict,
    comparison_from,
    comparison_notes,
    plain_fields,
    worst,
)
from fmha_cli.rules import Reason
from fmha_cli.verdict import Comparison, Verdict

SCHEMA = "fmha.record/1"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What became of one (problem, kernel, cache mode).

    Attributes:
        problem: ``Problem.to_dict()``.
        repro: the command line that gives this row again.
        backend, device, arch, kernel: None where nothing was chosen; ``arch`` is the kernel's.
        stages, splits, workspace_bytes: of the plan.
        comparisons: one per fill, in the order in which they ran.
        inputs: fill and files. ``dropout_stream`` names the stream that the kernel drew from, None without dropout.
        default_choice: with ``--all-kernels``: whether ``auto`` would have chosen this kernel, else None.
        regret: of the default choice: its median / the best median - 1.
        baseline: this row against an earlier report; ``ab``: against the other kernel of ``--ab``.
        launches: of a dry run: what each stage would launch (``LaunchView``), where the backend can tell.
        findings, executed: of an emulated device (``Finding``, ``Executed``); None on others: nobody looked.
        log: the end of what the kernel printed; out, saved: paths of ``--out``, and of a failure kept by
            ``--save-failures``.
    """

    problem: Mapping[str, Any]
    repro: str
    verdict: Verdict
    backend: str | None = None
    device: str | None = None
    arch: str | None = None
    kernel: KernelRow | None = None
    stages: tuple[StageRow, ...] = ()
    splits: int | None = None
    workspace_bytes: int | None = None
    comparisons: tuple[Comparison, ...] = ()
    measurement: Measurement | None = None
    reasons: tuple[Reason, ...] = ()
    inputs: Inputs = field(default_factory=Inputs)
    dropout_stream: str | None = None
    default_choice: bool | None = None
    regret: float | None = None
    baseline: Ratio | None = None
    ab: Ratio | None = None
    launches: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    log: str | None = None
    out: str | None = None
    saved: str | None = None
    findings: tuple[Mapping[str, Any], ...] | None = None
    executed: tuple[Mapping[str, Any], ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row as plain JSON values, keys sorted at every level; non-finite numbers as ``finite`` says."""
        bad = worst(self.comparisons)
        row = {
            **plain_fields(self),
            "ab": None if self.ab is None else self.ab.to_dict(),
            "baseline": None if self.baseline is None else self.baseline.to_dict(),
            "checks": None if bad is None else comparison_dict(bad),
            "fill_notes": [comparison_notes(c) for c in self.comparisons],
            "fills": [comparison_dict(c) for c in self.comparisons],
            "inputs": self.inputs.to_dict(),
            "kernel": None if self.kernel is None else self.kernel.to_dict(),
            "measurement": None if self.measurement is None else self.measurement.to_dict(),
            "reasons": [reason.to_dict() for reason in self.reasons],
            "schema": SCHEMA,
            "stages": [stage.to_dict() for stage in self.stages],
            "verdict": self.verdict.value,
        }
        del row["comparisons"]
        row, lost = nulled(row)
        row["notes"] = list(dict.fromkeys([*row["notes"], *lost]))
        return _sorted(row)  # type: ignore[no-any-return]

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Record:
        """The inverse of :meth:`to_dict` (a Reason's severity, which a row does not hold, is the default one).

        Raises:
            InternalError: not a row of this schema.
        """
        try:
            if data["schema"] != SCHEMA:
                raise ValueError(f"schema {data['schema']!r}")
            row, notes = restored(copy.deepcopy(dict(data)), data["notes"])
            pairs = zip(row["fills"], row["fill_notes"], strict=True)
            measured, kernel = row["measurement"], row["kernel"]
            nouns: dict[str, Any] = {
                "ab": _ratio(row["ab"]),
                "baseline": _ratio(row["baseline"]),
                "comparisons": tuple(comparison_from(checks, words) for checks, words in pairs),
                "inputs": Inputs(**row["inputs"]),
                "launches": tuple(row.get("launches", ())),
                "findings": _tuple(row.get("findings")),
                "executed": _tuple(row.get("executed")),
                "kernel": None if kernel is None else KernelRow(**kernel),
                "measurement": None if measured is None else Measurement.from_dict(measured),
                "notes": tuple(notes),
                "reasons": tuple(Reason(r["id"], r["text"], r["hint"]) for r in row["reasons"]),
                "stages": tuple(StageRow(**stage) for stage in row["stages"]),
                "verdict": Verdict(row["verdict"]),
            }
            derived = ("schema", "checks", "fills", "fill_notes")
            return Record(**{k: v for k, v in row.items() if k not in derived} | nouns)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise InternalError(f"not a {SCHEMA} row: {fault}", where="record") from fault


def _ratio(data: Mapping[str, Any] | None) -> Ratio | None:
    return None if data is None else Ratio.from_dict(data)


def _tuple(rows: list[Any] | None) -> tuple[Any, ...] | None:
    return None if rows is None else tuple(rows)


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _sorted(tree[key]) for key in sorted(tree)}
    return [_sorted(v) for v in tree] if isinstance(tree, list) else tree
