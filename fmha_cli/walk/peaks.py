"""The peaks that rows are held against: measured once per machine in the worker, or from the data sheet."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli.errors import FmhaError
from fmha_cli.execution.supervisor import Supervisor
from fmha_cli.measure.peaks import measured_peaks, peaks_from, spec_peaks, this_machine
from fmha_cli.measure.roofline import Floor, PeakKind, Peaks, floor_of
from fmha_cli.protocols import BuildContext, PeakLoops
from fmha_cli.registry import Registry
from fmha_cli.walk.request import Request
from fmha_cli.walk.rows import Row


class PeakBook:
    """Peaks by architecture, looked up when the first row needs them; a machine without peaks gives None."""

    def __init__(
        self,
        request: Request,
        registry: Registry,
        context: BuildContext,
        supervisor: Supervisor,
        threads: int,
        notify: Callable[[str], None],
    ) -> None:
        self._supervisor = supervisor
        self._request = request
        self._registry = registry
        self._context = context
        self._threads = threads
        self._notify = notify
        self._known: dict[str, Peaks | None] = {}

    def peaks(self, row: Row) -> Peaks | None:
        """The peaks for a row's kernel, None where nobody knows them."""
        if row.choice is None:
            return None
        key = f"{row.choice.kernel.backend} {row.choice.device.id} {row.choice.kernel.arch}"
        if key not in self._known:
            self._known[key] = self._find(row, again=False)
        return self._known[key]

    def floor_again(self, row: Row) -> Floor | None:
        """The row's floor by peaks that were measured once more, on the chance that the machine was busy before."""
        peaks = self._find(row, again=True)
        return None if peaks is None else floor_of(row.problem, peaks, row.cache)

    def _find(self, row: Row, *, again: bool) -> Peaks | None:
        assert row.choice is not None
        kernel, device = row.choice.kernel, row.choice.device
        backend = self._registry.backend(kernel.backend)
        if self._request.peak == PeakKind.SPEC or not isinstance(backend, PeakLoops):
            return spec_peaks(self._registry.arch(kernel.arch), device.name)
        try:
            artifact = backend.build_peaks(device, self._context)
            machine = this_machine(self._threads, artifact.digest, device.archs[0])
            entry = self._registry.entry_point(backend.name)

            def measure() -> Peaks:
                self._notify(f"measuring the peaks of this machine ({device.id}, {self._threads} threads), once")
                found = self._supervisor.peaks(entry, backend.name, artifact, self._threads)
                return peaks_from({**found, "kind": PeakKind.MEASURED.value})

            return measured_peaks(self._context.cache_root, machine, measure, again=again)
        except FmhaError as fault:
            self._notify(f"no peaks: {fault.what}")
            return None
