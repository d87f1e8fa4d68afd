"""The upstream programs on an emulated device: how they are run there, and what was seen."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fmha_cli.device import DeviceFacts
from fmha_cli.emulated import emulated_device
from fmha_cli.emulation import Emulator, EmulatorOptions, Observed
from fmha_cli.errors import UsageError
from fmha_cli.execution.job import Emulation
from fmha_cli.parity.reading import Ran, Reading, Said, without_times
from fmha_cli.parity.upstream import run_program
from fmha_cli.registry import Registry

_ONCE = {"warmup": "0", "repeat": "1"}
"""Settings with which a program launches once: nothing is timed on an emulated device."""


@dataclass(frozen=True)
class EmulatedSide:
    """What a program needs to run on an emulated device."""

    emulator: Emulator
    device: DeviceFacts
    library: Path
    options: EmulatorOptions

    @staticmethod
    def of(registry: Registry, device: str, emulation: Emulation) -> EmulatedSide:
        """The side of upstream, on the same device as this tool's.

        Raises:
            EnvironmentProblem: Z001, Z002.
        """
        emulator, facts = emulated_device(registry, device)
        return EmulatedSide(emulator, facts, emulation.library.path, emulation.options)

    def run(
        self, path: Path, argv: tuple[str, ...], environ: Mapping[str, str], timeout: float
    ) -> tuple[Ran, Observed | None]:
        """Run a program; what was seen of it is None where it left no readable report.

        Raises:
            EnvironmentProblem: Y004. Interrupted: Ctrl-C.
        """
        with tempfile.TemporaryDirectory(prefix="fmha-parity-") as folder:
            report = Path(folder, "report")
            own = self.emulator.program_environment(self.library, self.device, self.options, report)
            # What is killed cannot tidy up behind it: its temporary files go with this folder.
            ran = run_program(path, once(argv), {**environ, "LC_ALL": "C", "TMPDIR": folder, **own}, timeout)
            lasting = {name: value for name, value in own.items() if value != str(report)}
            ran = replace(ran, device=self.device.id, variables=lasting)
            try:
                return ran, self.emulator.read_report(report.read_text("utf-8"))
            except (OSError, ValueError):
                return ran, None


def once(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command line with a single launch."""
    kept = [word for word in argv if word[1:].partition("=")[0] not in _ONCE]
    return (*kept, *(f"-{name}={value}" for name, value in _ONCE.items()))


def read_with(reading: Reading, seen: Observed | None) -> Reading:
    """What a run means once it is known what the emulator saw. Its times are none.

    A result that the program calls valid is not, where the emulator found something; and one that left no report of a
    launch did not run on the device.
    """
    reading = without_times(reading)
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


def refuse_rounds(device: str, rounds: int) -> None:
    """No rounds of timing on an emulated device.

    Raises:
        UsageError: Z004.
    """
    if rounds:
        raise UsageError(
            f"--rounds {rounds}: the emulated device {device} has no speed to compare",
            code="Z004",
            where="--rounds",
            help="leave --rounds out: results are compared, nothing is timed",
        )
