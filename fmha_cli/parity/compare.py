"""Run each case through this tool and through the upstream program, on the same device, and time both interleaved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli.bench.compare import Ratio
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.wanted import wanted_backends
from fmha_cli.domain.counterpart import (
    Binaries,
    Counterpart,
    Mapped,
    Program,
    Ran,
    Reading,
    Said,
    UpstreamCase,
    respelled,
)
from fmha_cli.domain.device import Availability
from fmha_cli.domain.emulation import Observed
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.parity.emulated import EmulatedSide, read_with
from fmha_cli.parity.outcome import judge
from fmha_cli.parity.programs import run_program
from fmha_cli.report.documents.parity import ParityOutcome
from fmha_cli.report.record import Record
from fmha_cli.run.events import Done, Event
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run

BUDGET_S = 0.2
"""Seconds that this tool launches in one round. The upstream program launches 5 times to warm up, then 20 times."""


@dataclass(frozen=True)
class Times:
    """Mean nanoseconds of one pass over all kernels, one entry for each round, in the order taken.

    Attributes:
        against: the name of the upstream program.
    """

    ours_ns: tuple[int, ...]
    upstream_ns: tuple[int, ...]
    against: str

    @property
    def ratio(self) -> Ratio:
        """Our median / the upstream program's: above 1, this tool is slower."""
        return Ratio.of(self.ours_ns, self.upstream_ns, against=self.against, paired=True)


def timed(
    problem: Problem, request: Request, registry: Registry, theirs: Callable[[], int], rounds: int
) -> tuple[list[int], list[int]] | None:
    """Time both sides ``rounds`` times, in the order ours, theirs, theirs, ours, ... None if the user interrupted.

    Args:
        theirs: runs the upstream program once and returns its mean nanoseconds.

    Raises:
        ValueError: a side gave no time.
    """
    ours_ns: list[int] = []
    theirs_ns: list[int] = []

    bench = replace(request, command=Command.BENCH, check=False, budget_s=BUDGET_S, peak="spec")

    def take(event: Event) -> None:
        if not isinstance(event, Done):
            return
        if event.record.measurement is None:
            raise ValueError(f"this tool did not time: {event.record.verdict.value}")
        samples = event.record.measurement.samples_ns
        ours_ns.append(sum(samples) // len(samples))
        while len(theirs_ns) < _due(len(ours_ns), rounds):
            theirs_ns.append(theirs())

    ended = Run([problem] * rounds, bench, registry).finish(take)
    return None if ended.interrupted else (ours_ns, theirs_ns)


def _due(ours: int, rounds: int) -> int:
    """How often the other side should have run after our run number ``ours``: twice after every odd one."""
    return min(rounds, ours + 1 if ours % 2 else ours)


CHUNK = 32
"""Cases that are built together before the first of them runs. Builds are parallel, and rows still appear early."""


@dataclass(frozen=True)
class ComparedCase:
    """The outcome of one case.

    Attributes:
        ran: the run of the upstream program; None if it did not run.
        record: the run of this tool; None if it did not run.
        seen: an emulated device's observations of the upstream program.
    """

    mapped: Mapped
    outcome: ParityOutcome
    why: tuple[str, ...] = ()
    ran: Ran | None = None
    reading: Reading | None = None
    record: Record | None = None
    times: Times | None = None
    seen: Observed | None = None

    @property
    def case(self) -> UpstreamCase:
        return self.mapped.case

    @property
    def ratio(self) -> Ratio | None:
        return None if self.times is None else self.times.ratio


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The settings that all cases share.

    Attributes:
        upstream: how to call the programs and read their output.
        request: the options of this tool's side; its ``timeout`` holds for both sides.
        rounds: interleaved rounds of timing for every case that both sides pass; 0 = none.
        environ: environment of the upstream programs.
        for_these_cases: the programs hold only kernels that this tool chose for the cases.
        emulated: the emulated device that both sides run on; None for a real one.
    """

    upstream: Counterpart
    request: Request
    registry: Registry
    binaries: Binaries
    environ: Mapping[str, str]
    rounds: int = 0
    for_these_cases: bool = False
    emulated: EmulatedSide | None = None


@dataclass(frozen=True)
class Compared:
    """One outcome for every case, in their order."""

    outcomes: tuple[ParityOutcome, ...]
    availability: Mapping[str, Availability]
    interrupted: bool = False


def compare(
    cases: Sequence[UpstreamCase],
    setup: Setup,
    *,
    on_row: Callable[[ComparedCase], None],
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    voice: Voice = SILENT,
) -> Compared:
    """Run every case on both sides; ``on_row`` receives each row once it and all earlier ones are complete.

    Raises:
        UsageError: an unknown backend, architecture or device kind, before the first row.
        EnvironmentProblem: a program that cannot be started.
    """
    both = _Both(setup, voice)
    outcomes: list[ParityOutcome] = []
    for start in range(0, len(cases), CHUNK):
        chunk = [setup.upstream.mapped(case) for case in cases[start : start + CHUNK]]
        progress(start, len(cases), chunk[0].case.name)
        for row in both.chunk(chunk):
            outcomes.append(row.outcome)
            on_row(row)
        progress(len(outcomes), len(cases), chunk[-1].case.name)
    return Compared(tuple(outcomes), both.availability, both.interrupted)


class _Both:
    """The state of one ``compare``."""

    def __init__(self, setup: Setup, voice: Voice) -> None:
        self.setup, self.voice = setup, voice
        self.interrupted = False
        request, registry = setup.request, setup.registry
        self.availability = probe_backends(registry, wanted_backends(registry, request.wanted), device=request.device)
        self.no_device = _no_device(self.availability, request)

    def chunk(self, chunk: Sequence[Mapped]) -> list[ComparedCase]:
        """One row for each case, even after a failure."""
        done: dict[int, ComparedCase] = {}
        ready: dict[str, list[int]] = {}
        for index, case in enumerate(chunk):
            early = self._early(case)
            if early is not None:
                done[index] = early
            else:
                ready.setdefault(case.fill, []).append(index)
        for fill, indices in ready.items():
            if not self.interrupted:
                self._run(chunk, indices, fill, done)
        if self.setup.rounds:
            for index, row in sorted(done.items()):
                if row.outcome is ParityOutcome.AGREE_PASS and not self.interrupted:
                    done[index] = self._timed(row)
        rest = ("interrupted before this case was done",)
        return [done.get(i) or ComparedCase(case, ParityOutcome.NOT_RUN, rest) for i, case in enumerate(chunk)]

    def _early(self, case: Mapped) -> ComparedCase | None:
        """The row of a case that needs no run; None for one that does."""
        missing = self.setup.binaries.missing.get(case.case.program)
        if missing is not None:
            return ComparedCase(case, ParityOutcome.MISSING_BINARY, (missing,))
        if case.reasons:
            return ComparedCase(case, ParityOutcome.NOT_COMPARABLE, case.reasons)
        return None if self.no_device is None else ComparedCase(case, ParityOutcome.NOT_RUN, (self.no_device,))

    def _run(self, chunk: Sequence[Mapped], indices: Sequence[int], fill: str, done: dict[int, ComparedCase]) -> None:
        order = iter(indices)
        problems = [problem for i in indices if (problem := chunk[i].problem) is not None]
        request = replace(self.setup.request, fills=(fill,))

        def take(event: Event) -> None:
            if isinstance(event, Done):
                index = next(order)
                done[index] = self._row(chunk[index], event.record)

        try:
            ended = Run(problems, request, self.setup.registry, voice=self.voice).finish(take)
            self.interrupted = self.interrupted or ended.interrupted
            if (
                ended.interrupted and ended.journal is not None
            ):  # it holds one side of some cases: nothing can resume from it
                Path(ended.journal).unlink(missing_ok=True)
        except EnvironmentProblem as error:
            if error.code.startswith("Y"):
                raise
            done.update(
                {i: ComparedCase(chunk[i], ParityOutcome.NOT_RUN, (error.render(),)) for i in indices if i not in done}
            )

    def _row(self, case: Mapped, record: Record) -> ComparedCase:
        if record.verdict is Verdict.NOT_RUN:
            return ComparedCase(
                case, ParityOutcome.NOT_RUN, record.notes or ("this tool's side did not run",), record=record
            )
        if record.verdict is Verdict.UNSUPPORTED and self.setup.for_these_cases:
            # The program was built without a kernel for it, so its "not supported" would prove nothing.
            why = "this tool has no kernel for it, and the program was built for this tool's kernels only"
            return ComparedCase(case, ParityOutcome.NOT_COMPARABLE, (why,), record=record)
        if self.setup.emulated is not None:
            return self._emulated(case, record, self.setup.emulated)
        ran = self._upstream(case.case.program, case.argv, record)
        reading = self.setup.upstream.read(ran, case.case)
        outcome = judge(record.verdict, reading)
        return ComparedCase(case, outcome, _why(outcome, reading, record), ran, reading, record)

    def _emulated(self, case: Mapped, record: Record, side: EmulatedSide) -> ComparedCase:
        path = self.setup.binaries.found[case.case.program]
        upstream = self.setup.upstream
        argv = respelled(case.argv, upstream.once)  # nothing is timed on an emulated device
        ran, seen = side.run(path, argv, self.setup.environ, self.setup.request.timeout)
        reading = read_with(upstream.without_times(upstream.read(ran, case.case)), seen)
        outcome = judge(record.verdict, reading)
        return ComparedCase(case, outcome, _why(outcome, reading, record), ran, reading, record, seen=seen)

    def _upstream(self, program: Program, argv: tuple[str, ...], record: Record) -> Ran:
        env = self.setup.upstream.environment(record.device, self.setup.environ)
        ran = run_program(self.setup.binaries.found[program], argv, env, self.setup.request.timeout)
        return replace(ran, device=record.device)

    def _timed(self, row: ComparedCase) -> ComparedCase:
        """The row with interleaved times of both sides. If a side gives none, the outcome stays, with a reason."""
        assert row.mapped.problem is not None
        assert row.record is not None
        record, case = row.record, row.mapped
        upstream = self.setup.upstream
        argv, binary = respelled(case.argv, upstream.timing), upstream.binaries[case.case.program]

        def theirs() -> int:
            ran = self._upstream(case.case.program, argv, record)
            reading = upstream.read(ran, case.case, validated=False)
            if reading.said is not Said.UNCHECKED or not reading.ms:
                raise ValueError(f"{binary} did not time: {reading.why or reading.said.value}")
            return round(reading.ms * 1e6)

        request = replace(self.setup.request, fills=(case.fill,))
        try:
            times = timed(row.mapped.problem, request, self.setup.registry, theirs, self.setup.rounds)
        except ValueError as fault:
            return replace(row, why=(*row.why, f"no time ratio: {fault}"))
        self.interrupted = times is None
        return row if times is None else replace(row, times=Times(tuple(times[0]), tuple(times[1]), binary))


def _no_device(found: Mapping[str, Availability], request: Request) -> str | None:
    """Why no wanted backend has a device that this request accepts; None if one does."""
    for availability in found.values():
        for device in availability.devices:
            if request.device in (None, device.id) and (request.arch is None or request.arch in device.archs):
                return None
    wanted = request.device or request.arch
    whys = [f"{name}: {a.why or a.state.value}" for name, a in found.items()]
    return f"no device{f' for {wanted}' if wanted else ''} ({'; '.join(whys)})"


def _why(outcome: ParityOutcome, reading: Reading, record: Record) -> tuple[str, ...]:
    """Why the sides disagree. The verdict of both, if they agree on something other than a pass."""
    if outcome is ParityOutcome.AGREE_PASS:
        return ()
    ours = [f"{reason.id} {reason.text}" for reason in record.reasons[:3]] or list(record.notes[:1])
    ours_text = f"this tool: {record.verdict.value}" + (f" ({'; '.join(ours)})" if ours else "")
    theirs = f"upstream: {reading.said.value}" + (f" ({reading.why})" if reading.why else "")
    return (theirs, ours_text)
