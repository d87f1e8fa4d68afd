"""The verdicts of every command on the wrong kernels, and their table in ``results/wrong_kernels.md``.

``python -m tests.support.fakes.wrong_kernels.verdicts`` prints the table as it is now.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from fmha_cli import api
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.features import FILLS
from fmha_cli.report.record import Record
from tests.support.fakes.wrong_kernels.backend import NAME, kernel
from tests.support.fakes.wrong_kernels.faults import Fault
from tests.support.paths import ROOT

COMMANDS = ("run", "validate", "bench", "bench --ab")
DOCUMENT = ROOT / "results" / "wrong_kernels.md"
OR = " or "
"""Between two verdicts of which a race decides."""


def registry() -> Registry:
    """A registry with this plugin alone."""
    return Registry({}, lambda: [EntryPoint(NAME, f"{__package__}.backend", "fmha")])


def rows_of(command: str, faults: Sequence[Fault], cache_root: Path) -> dict[Fault, Record]:
    """A command's message about each fault."""
    options: dict[str, Any] = {"backend": NAME, "registry": registry(), "cache_root": str(cache_root)}
    if command == "bench --ab":
        return {fault: _against_a_right_one(fault, options) for fault in faults}
    if command == "validate":
        options["fills"] = FILLS
    out = {}
    for fault in faults:
        spec = kernel(fault)
        (out[fault],) = api.run(fault.problem, command=command, kernel=spec.digest, budget_s=0.01, **options)
    return out


def _against_a_right_one(fault: Fault, options: dict[str, Any]) -> Record:
    pair = (kernel(Fault.NONE, fault.problem.dtype).digest, kernel(fault).digest)
    right, wrong = api.run(fault.problem, command="bench", ab=pair, budget_s=0.01, **options)
    assert right.verdict.value == "PASSED", right.notes
    return wrong


def documented() -> dict[Fault, tuple[str, ...]]:
    """The verdicts that the table states, in the order of ``COMMANDS``."""
    lines = DOCUMENT.read_text("utf-8").splitlines()
    table = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    known = {fault.value: fault for fault in Fault}
    return {known[cells[0].strip("`")]: tuple(cells[2:]) for cells in table if cells[0].strip("`") in known}


def line_of(fault: Fault, verdicts: Sequence[str]) -> str:
    """The line of a fault in the table."""
    return f"| `{fault.value}` | {' | '.join([fault.text, *verdicts])} |"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        faults = list(Fault)[1:]
        found = {command: rows_of(command, faults, Path(folder)) for command in COMMANDS}
    for fault in faults:
        print(line_of(fault, [found[command][fault].verdict.value for command in COMMANDS]))


if __name__ == "__main__":
    main()
