"""``validate --invariant``: a sequence runs alone, then with each change around it, and every bit is compared.

Each changed problem gets the kernel that would be chosen for it, unless ``--kernel`` names one. Where results differ, what differs
between the launches is held, one thing after the other, until they agree: that names the stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from fmha_cli.discovery.select import promised_by
from fmha_cli.domain.device import usable_cores
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.invariance import BitDifference, Invariance, has_threads, why_unchangeable
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.domain.verdict import Verdict
from fmha_cli.oracle.tensors import Inputs
from fmha_cli.report.documents.invariance import DifferingStage, InvarianceOutcome, InvariantRow
from fmha_cli.report.parts import KernelRow
from fmha_cli.run.records import repro_line
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row, plan_rows
from fmha_cli.run.single_launches import Launched, SingleLaunches
from fmha_cli.run.variants import Variant, alone_of, first_difference, placed, variants_of


class InvarianceProbe(SingleLaunches):
    """Puts the changes around a sequence to kernels."""

    def rows_of(self, asked: Problem) -> Iterator[InvariantRow]:
        """The rows of a problem: one for each property and compared backend.

        Raises:
            UsageError, EnvironmentProblem: as ``select``.
            KeyboardInterrupt: the user interrupted.
        """
        alone, _ = alone_of(asked)
        for row in plan_rows((alone,), self.request, self.registry, self.found, chooser=self.chooser):
            yield from SequenceProbe(self, asked, row).rows()


class SequenceProbe:
    """The properties of one sequence and the row that serves it alone."""

    def __init__(self, probe: SingleLaunches, asked: Problem, row: Row) -> None:
        self._probe, self._asked, self._row, self._alone = probe, asked, row, row.problem
        self._ran: Launched | None = None
        self._request, self._registry = probe.request, probe.registry

    def rows(self) -> Iterator[InvariantRow]:
        """A row for each property."""
        for property in Invariance:
            yield self._row_of(property)

    @cached_property
    def _inputs(self) -> Inputs:
        return self._probe.filled(self._alone, 0)

    @cached_property
    def _first(self) -> Launched:
        """The sequence alone, judged."""
        self._ran = self._probe.launched(self._row, self._inputs, None, first=True)
        return self._ran

    @cached_property
    def _with_one_thread(self) -> Launched:
        return self._probe.launched(self._row, self._inputs, 1)

    @cached_property
    def _promised(self) -> frozenset[Invariance] | None:
        """What the kernel promises; None: its backend states nothing."""
        choice = self._row.choice
        return None if choice is None else promised_by(self._registry, self._alone, choice.kernel, choice.device)

    def _row_of(self, property: Invariance) -> InvariantRow:
        choice, made = self._row.choice, self._made
        if choice is None:
            outcome = InvarianceOutcome.NOT_RUN if self._row.absent else InvarianceOutcome.UNSUPPORTED
            return made(property, outcome, reasons=self._row.reasons)
        why = why_unchangeable(property, self._alone, choice.device)
        if why is not None:
            return made(property, InvarianceOutcome.NOT_APPLICABLE, reasons=(_inapplicable(property, why),))
        first = self._first
        if first.useless:
            failed = first.outcome.verdict is not Verdict.NOT_RUN
            outcome = InvarianceOutcome.FAILED if failed else InvarianceOutcome.NOT_RUN
            return made(property, outcome, notes=first.outcome.notes)
        if property is Invariance.REPEATS:
            return self._repeated()
        same: list[InvariantRow] = []
        threads, units = first.threads, choice.device.units
        assert self._row.plan is not None
        splits = self._alone.splits or self._row.plan.splits  # a kernel that merges its parts itself plans one
        for variant in variants_of(property, self._asked, splits, threads, units):
            row = self._compared(variant)
            if row.outcome is not InvarianceOutcome.HELD:
                return row
            same.append(row)
        if not same:
            cores = usable_cores()
            why = f"this process may use {cores} core{'s' if cores > 1 else ''} alone"
            return made(property, InvarianceOutcome.NOT_APPLICABLE, reasons=(_inapplicable(property, why),))
        return replace(same[0], change="; ".join(filter(None, (row.change for row in same))))

    def _repeated(self) -> InvariantRow:
        property, found = Invariance.REPEATS, self._first.outcome.differences
        what = f"{max(2, self._request.repeats)} launches of the same inputs"
        if not found:
            return self._made(property, InvarianceOutcome.HELD, change=what)
        outcome = self._blame(property, self._row)
        return self._made(property, outcome, change=what, stage=DifferingStage.RUN, difference=found[0])

    def _compared(self, variant: Variant) -> InvariantRow:
        property, made = variant.property, self._made
        told: dict[str, Any] = {"change": variant.what, "changed": variant.problem.repro()}
        try:
            row = self._probe.planned(variant.problem, self._row.asked, variant.units)
        except UnsupportedError as fault:
            reason = Reason(fault.code or "K000", fault.what, fault.help)
            return made(property, InvarianceOutcome.UNSUPPORTED, reasons=(reason,), **told)
        if row.choice is None:
            return made(property, InvarianceOutcome.UNSUPPORTED, reasons=row.reasons, **told)
        told |= self._told(row)
        inputs = self._inputs_of(variant)
        after = self._probe.launched(row, inputs, variant.threads)
        if after.useless:
            return made(property, InvarianceOutcome.FAILED, notes=after.outcome.notes, failure=after, **told)
        found = self._difference(variant, self._first, after)
        if found is None:
            return made(property, InvarianceOutcome.HELD, **told)
        stage = self._stage(variant, inputs, after)
        return made(property, self._blame(property, row), stage=stage, difference=found[0], place=found[1], **told)

    def _inputs_of(self, variant: Variant) -> Inputs:
        if not variant.moved:
            return self._inputs
        return placed(variant, self._alone, self._inputs, self._probe.filled(variant.problem, 1))

    def _difference(self, variant: Variant, before: Launched, after: Launched) -> tuple[BitDifference, int] | None:
        return first_difference(variant, self._alone, before.outcome.outputs, after.outcome.outputs)

    def _blame(self, property: Invariance, row: Row) -> InvarianceOutcome:
        """Whether a difference breaks a promise: one about the kernel that serves both problems, or about the choice."""
        assert row.choice is not None
        assert self._row.choice is not None
        same = row.choice.kernel == self._row.choice.kernel
        if property in self._request.require or (same and property in (self._promised or ())):
            return InvarianceOutcome.BROKEN
        return InvarianceOutcome.DIFFERS

    def _stage(self, variant: Variant, inputs: Inputs, after: Launched) -> DifferingStage:
        """The first difference between the launches that makes the results equal when it is held."""
        if self._first.outcome.differences:
            return DifferingStage.RUN
        if variant.property is Invariance.THREADS:
            return DifferingStage.THREAD
        if variant.property is Invariance.SPLITS:
            return DifferingStage.SPLIT
        assert self._row.choice is not None
        assert self._row.plan is not None
        kernel, problem, row = self._row.choice.kernel, variant.problem, after.row
        for stage in (DifferingStage.KERNEL, DifferingStage.SPLIT):
            if not self._changes(stage, row):
                continue
            if stage is DifferingStage.SPLIT:
                problem = replace(problem, splits=self._row.plan.splits)
            try:
                row = self._probe.planned(problem, kernel.backend, variant.units, kernel.digest)
            except UnsupportedError:
                return stage  # it cannot be held
            again = self._probe.launched(row, inputs, variant.threads)
            if self._changes(stage, row) or again.useless or self._difference(variant, self._first, again) is None:
                return stage
        if has_threads(self._row.choice.device) and self._first.threads > 1:
            one = self._probe.launched(row, inputs, 1)
            if not one.useless and self._difference(variant, self._with_one_thread, one) is None:
                return DifferingStage.THREAD
        return DifferingStage.TILE

    def _changes(self, stage: DifferingStage, row: Row) -> bool:
        """Whether the row of a changed problem has another kernel, or another number of splits."""
        assert self._row.plan is not None
        assert row.plan is not None
        if stage is DifferingStage.KERNEL:
            return row.plan.main != self._row.plan.main
        return row.plan.splits != self._row.plan.splits

    def _told(self, row: Row) -> dict[str, Any]:
        """The kernel that serves a changed problem."""
        assert row.choice is not None
        assert row.plan is not None
        return {"changed_kernel": self._named(row.choice.kernel), "changed_splits": row.plan.splits}

    def _made(
        self, property: Invariance, outcome: InvarianceOutcome, *, failure: Launched | None = None, **found: Any
    ) -> InvariantRow:
        """A row, with what is known of the sequence alone."""
        row, choice, plan = self._row, self._row.choice, self._row.plan
        ran = failure or self._ran
        request = self._request if row.asked is None else replace(self._request, backend=row.asked)
        blank = blank_row(self._asked, request, property, outcome)
        if choice is None or plan is None:
            return replace(blank, **found)
        told: dict[str, Any] = {"notes": ran.outcome.notes if ran else (), **found}
        return replace(
            blank,
            backend=choice.kernel.backend,
            device=choice.device.id if choice.runnable else None,
            arch=choice.kernel.arch,
            kernel=self._named(choice.kernel),
            splits=plan.splits,
            verdict=ran.outcome.verdict if ran else None,
            promised=None if self._promised is None else property in self._promised,
            **told,
        )

    def _named(self, kernel: KernelSpec) -> KernelRow:
        return KernelRow.of(kernel, self._registry.backend(kernel.backend).upstream_name(kernel))


def blank_row(
    asked: Problem, request: Request, property: Invariance, outcome: InvarianceOutcome, *notes: str
) -> InvariantRow:
    """A row of which nothing is known but its problem."""
    return InvariantRow(
        problem=asked.to_dict(),
        repro=repro_line(asked, request).replace("fmha run", "fmha validate --invariant", 1),
        backend=request.backend if request.wanted.one else None,
        device=None,
        arch=None,
        kernel=None,
        splits=None,
        verdict=None,
        property=property,
        outcome=outcome,
        promised=None,
        required=property in request.require,
        change=None,
        changed=None,
        changed_kernel=None,
        changed_splits=None,
        stage=None,
        place=None,
        difference=None,
        reasons=(),
        notes=notes,
    )


def _inapplicable(property: Invariance, why: str) -> Reason:
    return Reason("K033", f"{property.value}: {why}", None, Severity.KIND)
