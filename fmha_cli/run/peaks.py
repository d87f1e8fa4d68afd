"""What is measured once per machine, in the worker: the peaks that rows are compared with (or those of the data sheet), and the settings
of kernels that no fact decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Thread

from fmha_cli.bench.peaks import MeasuredKernel, kept_settings, measured_once, measured_peaks, spec_peaks, this_machine
from fmha_cli.bench.roofline import Bound, Floor, PeakKind, Peaks, floor_of
from fmha_cli.discovery.select import Choice
from fmha_cli.domain.codec import from_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.measuring import Canary, PeakLoops, Tunable
from fmha_cli.domain.phases import Phase
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.settings import Settings, SettingsFrom
from fmha_cli.run.request import Command, Context
from fmha_cli.run.rows import Row


class PeakBook:
    """Peaks by architecture, looked up when the first row needs them; None if they are unknown."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[str, Peaks | None] = {}
        self._measures = context.request.command is Command.BENCH and context.request.peak == PeakKind.MEASURED
        """Only ``bench`` shows a share of the peak, so only it measures peaks."""

    @contextmanager
    def building(self, rows: Sequence[Row]) -> Iterator[None]:
        """Build the peak loops together with the kernels. Peaks are measured while nothing else runs: otherwise they
        would be too low.
        """
        loops = {
            _key(row.choice): (backend, _alone(row.choice))
            for row in rows
            if self._measures and row.choice is not None and row.choice.runnable
            if isinstance(backend := self._context.registry.backend(row.choice.kernel.backend), PeakLoops)
        }
        if not loops:
            yield
            return
        stop = Event()
        building = replace(self._context.building, stop=stop)

        def build() -> None:
            for backend, device in loops.values():
                with suppress(FmhaError):  # reported when the first row needs them
                    backend.build_peaks(device, building)

        thread = Thread(target=build, name="peak loops")
        thread.start()
        try:
            yield
        except BaseException:
            stop.set()
            raise
        finally:
            thread.join()

    def peaks(self, row: Row) -> Peaks | None:
        """The peaks for a row's kernel, None if they are unknown."""
        if row.choice is None:
            return None
        key = _key(row.choice)
        if key not in self._known:
            self._known[key] = self._find(row, again=False)
        return self._known[key]

    def floor_again(self, row: Row) -> Floor | None:
        """The row's floor after measuring the peaks again, in case the machine was busy before."""
        peaks = self._find(row, again=True)
        return None if peaks is None else floor_of(row.problem, peaks, row.cache)

    def ceiling(self, row: Row) -> tuple[Bound, float] | None:
        """The machine's rate at this moment in a short loop, of the kind that bounds the row; None if unknown."""
        if row.choice is None or not self._measures or row.choice.device.emulated:
            return None
        context, backend = self._context, self._context.registry.backend(row.choice.kernel.backend)
        peaks = self.peaks(row)
        floor = None if peaks is None else floor_of(row.problem, peaks, row.cache)
        if floor is None or not (isinstance(backend, PeakLoops) and isinstance(backend, Canary)):
            return None
        artifact = backend.build_peaks(_alone(row.choice), context.building)
        entry, memory = context.registry.entry_point(backend.name), floor.bound is Bound.MEMORY
        rate = context.supervisor.canary(entry, backend.name, artifact, context.threads, memory=memory)
        return None if rate is None else (floor.bound, rate)

    def _find(self, row: Row, *, again: bool) -> Peaks | None:
        assert row.choice is not None
        kernel, device = row.choice.kernel, _alone(row.choice)
        context = self._context
        backend = context.registry.backend(kernel.backend)
        if context.request.peak == PeakKind.SPEC or not isinstance(backend, PeakLoops):
            return spec_peaks(context.registry.arch(kernel.arch), device.name)
        if not self._measures:
            return None
        try:
            artifact = backend.build_peaks(device, context.building)
            machine = this_machine(context.threads, artifact.digest, device.archs[0])
            entry = context.registry.entry_point(backend.name)

            def measure() -> Peaks:
                context.voice.phase(Phase.PEAKS, 0, 0)
                what = f"{device.id}, {kernel.arch}, {context.threads} threads"
                context.voice.say(f"measuring the peaks of this machine ({what}), once")
                found = context.supervisor.peaks(entry, backend.name, artifact, context.threads)
                return from_json(Peaks, {**found, "kind": PeakKind.MEASURED.value}, "peaks")

            return measured_peaks(context.building.cache_root, machine, measure, again=again)
        except FmhaError as fault:
            context.voice.say(f"no peaks: {fault.what}")
            return None


def _alone(choice: Choice) -> DeviceFacts:
    """The device with the architecture of the kernel alone: a kernel is compared with the peak of its own instructions."""
    return replace(choice.device, archs=(choice.kernel.arch,))


def _key(choice: Choice) -> str:
    return f"{choice.kernel.backend} {choice.device.id} {choice.kernel.arch}"


def settings_of(row: Row, artifacts: Sequence[Artifact], context: Context) -> Settings | None:
    """The settings of the first stage that takes any; None if none does.

    Settings that no fact decides are measured where they matter for the problem, unless the user forbade it
    (``--no-probe``).
    """
    if row.choice is None or row.plan is None:
        return None
    backend, device = context.registry.backend(row.choice.kernel.backend), row.choice.device
    if not isinstance(backend, Tunable) or device.emulated:
        return None
    for stage, artifact in zip(row.plan.stages, artifacts, strict=True):
        found = backend.default_settings(stage.kernel, device)
        if found is None:
            continue
        worth = backend.worth_measuring(row.problem, stage.kernel, device)
        return _decided(found, stage.kernel, artifact, context, worth=worth)
    return None


def _decided(found: Settings, kernel: KernelSpec, artifact: Artifact, context: Context, *, worth: bool) -> Settings:
    """What was measured for a kernel, or is measured now because it is worth it, in place of the kernel's own settings."""
    if found.source is not SettingsFrom.KERNEL:
        return found
    root, threads = context.building.cache_root, context.threads
    subject = MeasuredKernel(machine=this_machine(threads, artifact.digest, kernel.arch), kernel=kernel.name)
    kept = kept_settings(root, subject)
    if kept is not None or not context.request.probe or not worth:
        return kept or found
    entry = context.registry.entry_point(kernel.backend)

    def measure() -> Mapping[str, int]:
        return context.supervisor.settings(entry, kernel.backend, artifact, kernel.name, threads)

    what = f"{kernel.arch} {kernel.digest[:8]}"
    context.voice.say(f"measuring the settings of {what} on this machine, once (--no-probe skips this)")
    try:
        return measured_once(root, subject, measure)
    except FmhaError as fault:
        context.voice.say(f"{what} runs with its own settings: {fault.what}")
        return found
