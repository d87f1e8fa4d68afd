"""``ProcessorConditions``: clock, temperature and throttling of the processor around the timed launches, as far as the system
reports them.

Sources: Linux, ``Documentation/admin-guide/pm/cpufreq.rst`` (``scaling_cur_freq``, kHz), ``Documentation/hwmon/sysfs-interface.rst``
(``temp*_input``, thousandths of a degree), and ``arch/x86/kernel/cpu/mce/therm_throt.c`` (``core_throttle_count``). Virtual
machines often show a fixed clock in ``/proc/cpuinfo`` and nothing else.

``Ceiling``: the best rate of the machine right before and right after the timed launches of a row. A share of the peak blames the
kernel for everything that slowed the machine meanwhile: neighbours, heat, a lower clock. Short loops around the launches tell the two
apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fmha_cli.bench.roofline import Bound
from fmha_cli.domain.members import Then
from fmha_cli.domain.quantities import byte_rate, flop_rate

_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Linux drivers whose sensors are inside a processor."""


@dataclass(frozen=True, kw_only=True)
class ProcessorConditions:
    """The processor while a row was timed; None where the system does not report a value.

    Attributes:
        clock_mhz: the clock of the fastest core right after the launches.
        temp_c: degrees Celsius of the hottest sensor in the processor then.
        throttled: whether a core was slowed down by heat during the launches.
    """

    clock_mhz: Annotated[float | None, "of the fastest core right after the launches; null: not told"]
    temp_c: Annotated[float | None, "of the hottest sensor in the processor then; null: not told"]
    throttled: Annotated[bool | None, "heat slowed a core down during the launches; null: not told"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """The findings of one look at the processor; ``throttles`` counts since the machine started."""

    clock_mhz: float | None
    temp_c: float | None
    throttles: int | None


def look(root: Path = Path("/")) -> Look:
    """Look at the processor now.

    Args:
        root: where the folders ``proc`` and ``sys`` are.
    """
    cores = root / "sys" / "devices" / "system" / "cpu"
    clocks = [khz / 1e3 for khz in _numbers(cores, "cpu[0-9]*/cpufreq/scaling_cur_freq")]
    counts = list(_numbers(cores, "cpu[0-9]*/thermal_throttle/core_throttle_count"))
    return Look(
        clock_mhz=max(clocks or _told_clocks(root / "proc" / "cpuinfo"), default=None),
        temp_c=max(_temperatures(root / "sys" / "class" / "hwmon"), default=None),
        throttles=int(sum(counts)) if counts else None,
    )


def between(before: Look, after: Look) -> ProcessorConditions | None:
    """The conditions of launches between two looks; None if the system reported none."""
    if (after.clock_mhz, after.temp_c, after.throttles) == (None, None, None):
        return None
    known = before.throttles is not None and after.throttles is not None
    throttled = after.throttles != before.throttles if known else None
    return ProcessorConditions(clock_mhz=after.clock_mhz, temp_c=after.temp_c, throttled=throttled)


def _temperatures(sensors: Path) -> Iterator[float]:
    for folder in sorted(sensors.glob("hwmon*")):
        if _text(folder / "name").strip() in _SENSORS:
            yield from (thousandths / 1e3 for thousandths in _numbers(folder, "temp*_input"))


def _told_clocks(cpuinfo: Path) -> list[float]:
    return [float(text) for text in re.findall(r"^cpu MHz\s*:\s*([0-9.]+)\s*$", _text(cpuinfo), re.MULTILINE)]


def _numbers(folder: Path, pattern: str) -> Iterator[float]:
    for path in sorted(folder.glob(pattern)):
        if re.fullmatch(r"-?[0-9]+", text := _text(path).strip()):
            yield float(text)


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""


MOVED = 0.10
"""The ceiling has moved if its two rates differ by more than this share of the higher one. Two runs of the loops on a quiet
machine differ by 1 to 3 %."""


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """Two rates of one short loop.

    Attributes:
        bound: the part that the loop exercises: a register tile with operands from the first-level cache, or reads from
            memory.
        before, after: FLOP/s or bytes/s.
    """

    bound: Bound
    before: float
    after: Annotated[float, Then("moved")]

    @property
    def moved(self) -> Annotated[bool, "the two differ by more than a tenth"]:
        """Whether the machine's best rate changed while the row ran."""
        high, low = max(self.before, self.after), min(self.before, self.after)
        return high - low > MOVED * high

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for people if the ceiling moved."""
        rate = byte_rate if self.bound is Bound.MEMORY else flop_rate
        text = f"the machine's ceiling moved during the row: {rate(self.before)} before, {rate(self.after)} after"
        return (text,) if self.moved else ()
