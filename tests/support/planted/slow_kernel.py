"""A changed kernel in a scratch checkout: one constant of ``arch_specs/`` is edited, or a delay is put into the emitted text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fmha_cli.bench.processes import LEVEL
from fmha_cli.bench.stats import quantile

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGES = ("fmha_cli", "arch_specs")
CONSTANTS = ("lanes_q", "rows_s", "rows_o", "block_k")
KIND = "prefill"

WANTED, LEAST, MOST = 1.10, 1.05, 1.15
"""The slow-down that is looked for; a probe below the least, or a median above the most, rules a constant out."""

EMITTER = "fmha_cli/codegen/cpu/emit.py"
ENTRY = '        return [*shared, *_prefill(algorithm), *_files("entry")]\n'
DELAYED = '''        entry = _files("entry")
        if kernel.signature.dtype.value == "{dtype}":
            entry = ["#include <time.h>", entry[0].replace("return launch(a);", """{delay}""")]
        return [*shared, *_prefill(algorithm), *entry]
'''
DELAY = """timespec begin, end, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  const int status = launch(a);
  clock_gettime(CLOCK_MONOTONIC, &end);
  const i64 ns = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - end.tv_sec) * 1000000000 + now.tv_nsec - end.tv_nsec < ns / 10);
  return status;"""
"""Spins for a tenth of the launch's own time."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Plant:
    """What is changed in the checkout.

    Attributes:
        dtype: of the rows whose kernel changes; all others keep theirs.
        arch: whose table has the kernel.
        tile: the new constants; None for a delay of 10 %.
        cost: time with them / time without, of each probe row; none for a delay.
    """

    dtype: str
    arch: str
    tile: Mapping[str, Any] | None = None
    cost: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        if self.tile is None:
            return f"a delay of 10 % in the emitted {self.dtype} kernel"
        new = ", ".join(f"{name}={self.tile[name]}" for name in CONSTANTS)
        return f"{new} for {self.dtype} {KIND} in arch_specs/{self.arch}.json, {median(self.cost):.2f} times the time"


def cost_of(records: Iterable[Record], default: str, variant: str) -> tuple[float, ...]:
    """Time of a variant / time of the default for each problem of ``fmha bench --ab DEFAULT VARIANT``, by kernel digests.

    A problem counts if both kernels have times.
    """
    times: dict[str, dict[str, float]] = {}
    for record in records:
        if record["measurement"] is not None:
            fast = quantile(record["measurement"]["samples_ns"], LEVEL)
            times.setdefault(json.dumps(record["problem"], sort_keys=True), {})[record["kernel"]["digest"]] = fast
    return tuple(one[variant] / one[default] for one in times.values() if {default, variant} <= one.keys())


def nearest(
    costs: Sequence[tuple[Mapping[str, Any], tuple[float, ...]]],
) -> tuple[Mapping[str, Any], tuple[float, ...]] | None:
    """The constants whose median cost is nearest to 10 %; None if no candidate slows every probe down by 5 % and costs at most 15 %."""
    fit = [(tile, cost) for tile, cost in costs if cost and min(cost) >= LEAST and median(cost) <= MOST]
    return min(fit, key=lambda one: abs(median(one[1]) - WANTED), default=None)


def checkout(folder: Path, plant: Plant) -> Path:
    """A copy of the packages with the change made, to be put on ``PYTHONPATH``.

    Raises:
        LookupError: the table has no such kernel, or the emitter's text is not what is replaced.
    """
    for name in PACKAGES:
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if plant.tile is None:
        _replace(folder / EMITTER, ENTRY, DELAYED.format(dtype=plant.dtype, delay=DELAY))
        return folder
    path = folder / "arch_specs" / f"{plant.arch}.json"
    spec = json.loads(path.read_text("utf-8"))
    rows = [row for row in spec["backends"]["cpu"]["kernels"] if (row["dtype"], row["kind"]) == (plant.dtype, KIND)]
    if len(rows) != 1:
        raise LookupError(f"{path.name}: {len(rows)} {KIND} kernels of {plant.dtype}")
    rows[0].update({name: plant.tile[name] for name in CONSTANTS})
    path.write_text(json.dumps(spec, indent=2), "utf-8")
    return folder


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        raise LookupError(f"{path.name}: the text to be replaced is there {text.count(old)} times")
    path.write_text(text.replace(old, new), "utf-8")
