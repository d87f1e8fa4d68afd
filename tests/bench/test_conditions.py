"""The conditions of a timed row: what Linux tells of clock, temperature and throttling, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fmha_cli.bench.conditions import Look, ProcessorConditions, between, look

CORES = "sys/devices/system/cpu"
FULL = {
    f"{CORES}/cpu0/cpufreq/scaling_cur_freq": "1500000\n",
    f"{CORES}/cpu1/cpufreq/scaling_cur_freq": "3700000\n",
    f"{CORES}/cpu0/thermal_throttle/core_throttle_count": "3\n",
    f"{CORES}/cpu1/thermal_throttle/core_throttle_count": "4\n",
    "sys/class/hwmon/hwmon0/name": "nvme\n",
    "sys/class/hwmon/hwmon0/temp1_input": "99000\n",
    "sys/class/hwmon/hwmon1/name": "k10temp\n",
    "sys/class/hwmon/hwmon1/temp1_input": "61500\n",
    "sys/class/hwmon/hwmon1/temp2_input": "58000\n",
    "proc/cpuinfo": "cpu MHz\t\t: 2000.000\n",
}


def machine(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_fastest_core_and_the_hottest_sensor_of_the_processor_count(tmp_path: Path) -> None:
    assert look(machine(tmp_path, FULL)) == Look(clock_mhz=3700.0, temp_c=61.5, throttles=7)


def test_a_virtual_machine_tells_a_clock_alone(tmp_path: Path) -> None:
    there = machine(tmp_path, {"proc/cpuinfo": "processor : 0\ncpu MHz\t\t: 2596.146\ncpu MHz\t\t: 2600.5\n"})
    assert look(there) == Look(clock_mhz=2600.5, temp_c=None, throttles=None)


@pytest.mark.parametrize("files", [{}, {"sys/class/hwmon/hwmon1/name": "k10temp", "proc/cpuinfo": "cpu MHz : fast"}])
def test_nothing_told_is_nothing_known(tmp_path: Path, files: Mapping[str, str]) -> None:
    nothing = look(machine(tmp_path, files))
    assert nothing == Look(clock_mhz=None, temp_c=None, throttles=None)
    assert between(nothing, nothing) is None


@pytest.mark.parametrize(
    ("before", "after", "throttled"), [(3, 3, False), (3, 4, True), (None, 4, None), (3, None, None)]
)
def test_a_count_that_grew_means_throttling(before: int | None, after: int | None, throttled: bool | None) -> None:
    first, last = (Look(clock_mhz=1.0, temp_c=None, throttles=count) for count in (before, after))
    assert between(first, last) == ProcessorConditions(clock_mhz=1.0, temp_c=None, throttled=throttled)
