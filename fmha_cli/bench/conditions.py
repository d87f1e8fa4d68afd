"""``ProcessorConditions``: clock, temperature and throttling of the processor around the timed launches, as far as the system
reports them.

Sources: Linux, ``Documentation/admin-guide/pm/cpufreq.rst`` (``scaling_cur_freq``, kHz), ``Documentation/hwmon/sysfs-interface.rst``
(``temp*_input``, thousandths of a degree), and ``arch/x86/kernel/cpu/mce/therm_throt.c`` (``core_throttle_count``). Virtual
machines often show a fixed clock in ``/proc/cpuinfo`` and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

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
