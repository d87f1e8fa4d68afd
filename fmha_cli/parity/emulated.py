"""Run the upstream programs on an emulated device, and read its observations."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.counterpart import Ran, Reading, Said
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import Emulator, EmulatorOptions, Observed
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.parity.programs import run_program
from fmha_cli.run.builds import build_context, emulation_of
from fmha_cli.run.request import Request


@dataclass(frozen=True)
class EmulatedSide:
    """The requirements of a program that runs on an emulated device."""

    emulator: Emulator
    device: DeviceFacts
    library: Path
    options: EmulatorOptions

    @staticmethod
    def of(request: Request, registry: Registry, rounds: int, voice: Voice = SILENT) -> EmulatedSide:
        """The upstream side, built, on the emulated device of a request.

        Raises:
            UsageError: Z004, rounds of timing.
            EnvironmentProblem: Z001, Z002; no compiler.
            KernelFailure: the emulator does not compile.
        """
        assert request.device is not None
        if rounds:
            what = f"--rounds {rounds}: the emulated device {request.device} has no speed to compare"
            help = "leave --rounds out: results are compared, nothing is timed"
            raise UsageError(what, code="Z004", where="--rounds", help=help)
        emulation = emulation_of(request, registry, build_context(request, voice))
        assert emulation is not None
        emulator, facts = emulated_device(registry, request.device)
        return EmulatedSide(emulator, facts, emulation.library.path, emulation.options)

    def run(
        self, path: Path, argv: tuple[str, ...], environ: Mapping[str, str], timeout: float
    ) -> tuple[Ran, Observed | None]:
        """Run a program. The observation is None if it left no readable report.

        Raises:
            EnvironmentProblem: Y004. Interrupted: Ctrl-C.
        """
        with tempfile.TemporaryDirectory(prefix="fmha-parity-") as folder:
            report = Path(folder, "report")
            own = self.emulator.program_environment(self.library, self.device, self.options, report)
            # A killed program cannot clean up: its temporary files are removed with this folder.
            ran = run_program(path, argv, {**environ, "LC_ALL": "C", "TMPDIR": folder, **own}, timeout)
            lasting = {name: value for name, value in own.items() if value != str(report)}
            ran = replace(ran, device=self.device.id, variables=lasting)
            try:
                return ran, self.emulator.read_report(report.read_text("utf-8"))
            except (OSError, ValueError):
                return ran, None


def read_with(reading: Reading, seen: Observed | None) -> Reading:
    """Correct a reading without times by the emulator's observations.

    A result that the program calls valid is wrong if the emulator found a fault. A run that reported no launch did not
    take place on the device.
    """
    if seen is None or not (seen.executed or seen.fault):
        if reading.said is not Said.VALID:
            return reading
        why = "it left no report of a launch: it did not run on the emulated device"
        return replace(reading, said=Said.UNREADABLE, why=why)
    if seen.fault is not None:
        return replace(reading, said=Said.FAILED, why="; ".join(filter(None, (seen.fault, reading.why))))
    if seen.findings and reading.said in (Said.VALID, Said.WRONG):
        kinds = ", ".join(dict.fromkeys(finding.kind.value for finding in seen.findings))
        found = f"the emulator found {kinds}: {seen.findings[0].line()}"
        return replace(reading, said=Said.WRONG, why="; ".join(filter(None, (found, reading.why))))
    return reading
