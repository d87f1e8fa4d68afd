"""``Record``: one JSON row (``fmha.record/3``), for every row that was asked for. Rows of ``fmha.record/1`` and ``/2`` are read too.

A record holds plain values and domain nouns that need no backend to be read, so a journal can be resumed after a plugin
was removed. Keys are sorted; absent data is null, never missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

from fmha_cli.bench.compare import Ratio
from fmha_cli.bench.difference import Against
from fmha_cli.bench.measurement import Measurement
from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.emulation import Executed, Finding
from fmha_cli.domain.layer import LayerKind, LayerPhase
from fmha_cli.domain.members import Count, Hex64, Hidden, Least, Pattern, ShownAs, Then
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import Processor
from fmha_cli.domain.protocols import LaunchView
from fmha_cli.domain.rules import Reason
from fmha_cli.domain.settings import Settings
from fmha_cli.domain.verdict import Comparison, Judging, Verdict
from fmha_cli.report.finite import PLAIN, nulled, restored
from fmha_cli.report.parts import (
    Checks,
    FillNotes,
    Inputs,
    KernelRow,
    RunRow,
    SelectedBy,
    StageRow,
    checks_of,
    comparison_from,
    notes_of,
    worst,
)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One row: what became of one (problem, kernel, cache mode).

    Attributes:
        problem: ``Problem.to_dict()``.
        backend, device, arch, kernel: None if nothing was chosen, but for the backend of a row that is about one of several.
        stages, splits, workspace_bytes: of the plan.
        comparisons: one per fill, in the order in which they ran.
        inputs: fill and files.
        dropout_stream: the stream from which the kernel drew; None without dropout.
        baseline: this row compared with an earlier report.
        ab: this row compared with the other kernel of ``--ab``, or with the first of several backends that was timed.
        log: the end of the kernel's output.
        out: paths that ``--out`` wrote.
        saved: paths of a failure that ``--save-failures`` kept.
        started: when the row was dispatched, ISO 8601 in UTC.
        host: digest of the machine: processor, driver, toolchains.
        processor: the machine's CPU, also where a GPU ran the kernel.
        settings: the run-time settings of the kernels that depend on the processor; None where there are none.
        model, phase, layer_kind, weight, assumed, calls: of ``--model`` or ``--workload``: the preset or the path of the file, and the
            ``Layer`` for which the problem stands; None where the flags name neither.
        row: the key of the row within its run, as journals have it.
        peak_bytes: the worker's memory during the first launch, above its level before; see ``FirstLaunch``.
        lead: of the fastest of several backends: its time against the next one's; None for the others, and for one without rivals.
    """

    schema: Literal["fmha.record/3"] = "fmha.record/3"
    problem: Annotated[Mapping[str, Any], ShownAs(Problem)]
    repro: Annotated[str, "command line that gives this row again"]
    backend: str | None = None
    device: str | None = None
    arch: Annotated[str | None, "the kernel's"] = None
    kernel: KernelRow | None = None
    stages: tuple[StageRow, ...] = ()
    splits: Annotated[int | None, Least(1)] = None
    workspace_bytes: Count | None = None
    peak_bytes: Annotated[
        Count | None, "host memory of the worker in the first launch, above its level before it; null: unknown"
    ] = None
    verdict: Verdict
    comparisons: Annotated[tuple[Comparison, ...], Hidden(), Then("checks", "fills", "fill_notes")] = ()
    measurement: Measurement | None = None
    reasons: tuple[Reason, ...] = ()
    inputs: Inputs = field(default_factory=Inputs)
    dropout_stream: str | None = None
    default_choice: Annotated[bool | None, "with --all-kernels: auto would choose this kernel"] = None
    regret: Annotated[float | None, "of the default choice: its median / the best median - 1"] = None
    regret_ci95: Annotated[
        tuple[float, float] | None, "95 % interval of the regret; null: too few samples, or no regret"
    ] = None
    baseline: Against | None = None
    lead: Annotated[Ratio | None, "of the fastest of several backends: its time against the next one's"] = None
    ab: Ratio | None = None
    judging: Annotated[Judging | None, "how closely the row was looked at; null: it did not run"] = None
    launches: Annotated[
        tuple[LaunchView, ...], "of a dry run: what each stage would launch, where the backend can tell"
    ] = ()
    notes: Annotated[tuple[str, ...], "for people; 'PATH is nan' stands for a null at PATH"] = ()
    log: str | None = None
    out: str | None = None
    saved: str | None = None
    findings: Annotated[
        tuple[Finding, ...] | None, "of an emulated device: each place once; null on others, where nobody looked"
    ] = None
    executed: Annotated[
        tuple[Executed, ...] | None,
        "of an emulated device: what the first run executed, one entry for each GPU kernel; null on others",
    ] = None
    run: RunRow | None = None
    started: str | None = None
    host: Hex64 | None = None
    processor: Processor | None = None
    settings: Settings | None = None
    selected_by: SelectedBy | None = None
    model: str | None = None
    phase: Annotated[LayerPhase | None, "of the model; null: of a workload, or no model"] = None
    layer_kind: Annotated[LayerKind | None, "of the model's layers that have this problem; null likewise"] = None
    weight: Annotated[int | None, Least(1), "how many attention calls of the model or workload have this problem"] = (
        None
    )
    assumed: Annotated[
        bool | None,
        "no table knows the model, whose attention was taken to be the usual one; null: an earlier version wrote it",
    ] = None
    calls: Annotated[Count | None, "of a workload: all its attention calls, those without a problem included"] = None
    row: Annotated[
        str | None,
        Pattern("^[0-9a-f]{24}$"),
        "tells the row from all others of its run; null: an earlier version wrote it",
    ] = None

    @property
    def checks(self) -> Annotated[Checks | None, "the worst fill"]:
        bad = worst(self.comparisons)
        return None if bad is None else checks_of(bad)

    @property
    def fills(self) -> tuple[Checks, ...]:
        return tuple(checks_of(comparison) for comparison in self.comparisons)

    @property
    def fill_notes(self) -> Annotated[tuple[FillNotes, ...], "one for each of fills"]:
        return tuple(notes_of(comparison) for comparison in self.comparisons)

    def to_dict(self) -> dict[str, Any]:
        """The row as plain JSON values, with keys sorted at every level; ``finite`` replaces non-finite numbers."""
        row, lost = nulled(to_json(self))
        row["notes"] = list(dict.fromkeys([*row["notes"], *lost]))
        return _sorted(row)  # type: ignore[no-any-return]

    @staticmethod
    def from_dict(data: Any, where: str = "record") -> Record:
        """The inverse of :meth:`to_dict`. A row does not hold a Reason's severity, so it becomes the default.

        What is read can be written: every member that is derived from others is computed once here.

        Args:
            where: the name of the row in an error.

        Raises:
            DecodeError: not a row of this schema or of an earlier one.
        """
        if not isinstance(data, Mapping):
            raise DecodeError("not an object", where)
        if data.get("schema") not in (Record.schema, *_EARLIER):
            name = data.get("schema")
            said = f"its schema is {name}, and" if isinstance(name, str) else "it names no schema;"
            raise DecodeError(f"{said} this fmha reads {', '.join(_EARLIER)} and {Record.schema}", where)
        try:
            row, notes = restored(upgraded(data), data["notes"])
            record = from_json(Record, {**row, "notes": notes}, where)
            to_json(record)
        except DecodeError:
            raise
        except KeyError as fault:
            raise DecodeError(f"lacks {fault.args[0]}", where) from fault
        except (TypeError, ValueError, AttributeError, ArithmeticError) as fault:
            raise DecodeError(str(fault), where) from fault
        return record

    @classmethod
    def from_members(cls, members: Mapping[str, Any]) -> Record:
        """The record from its JSON members; ``checks`` is derived again.

        Raises:
            ValueError: the numbers of fills and of their notes differ.
        """
        pairs = zip(members["fills"], members["fill_notes"], strict=True)
        comparisons = tuple(comparison_from(checks, words) for checks, words in pairs)
        names = {item.name for item in fields(cls)} - {"comparisons"}
        return cls(comparisons=comparisons, **{name: members[name] for name in names})


_EARLIER = ("fmha.record/1", "fmha.record/2")
_LATER = ("peak_bytes", "lead", "phase", "layer_kind", "weight", "assumed", "calls", "row")
"""Members that the first rows of this schema did not have."""
_JUDGED = ("processes", "other_processes", "p_adjusted", "drift", "could_see", "why")
"""Members of ``baseline`` that rows had not while their samples were compared, and not their processes."""


_ADDED = ("regret_ci95", "judging", "run", "started", "host", "selected_by", "model", "processor", "settings")
"""Members that rows of earlier schemas did not have."""


def upgraded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of this schema or of an earlier one as one of this; what the row did not say is null.

    Raises:
        KeyError, TypeError, AttributeError: not a row of such a schema.
    """
    earlier = row["schema"] != Record.schema
    parts = {
        "executed": _each(row["executed"], "global_sectors"),
        "measurement": _with(row["measurement"], "conditions"),
        "baseline": _with(row["baseline"], *_JUDGED),
    }
    if earlier:
        parts["measurement"] = _with(parts["measurement"], "process_of_sample", "noise", "ceiling")
        parts["stages"] = _each(row["stages"], "imported_from", "edited")
        parts["checks"], *parts["fills"] = (
            fill and {name: _with(check, "rows_total", "column") for name, check in fill.items()}
            for fill in (row["checks"], *row["fills"])
        )
    return _with({**row, **parts, "schema": Record.schema}, *_LATER, *(_ADDED if earlier else ()))  # type: ignore[no-any-return]


def _with(tree: Any, *names: str) -> Any:
    """An object with further members, which are null if it lacks them; anything else as it is."""
    return {**dict.fromkeys(names), **tree} if isinstance(tree, dict) else tree


def _each(items: Any, *names: str) -> Any:
    return [_with(item, *names) for item in items] if isinstance(items, list) else items


def _sorted(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: v if type(v := tree[key]) in PLAIN else _sorted(v) for key in sorted(tree)}
    return [v if type(v) in PLAIN else _sorted(v) for v in tree] if isinstance(tree, list) else tree
