"""``fmha sweep`` in its own process over the null backend's devices, and what a test may do to it and read from it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from fmha_cli.results.run import load_run
from tests.support.child_signals import hear_signals
from tests.support.live_processes import running

DEVICES = 4


@dataclass
class Swept:
    """A sweep that runs.

    Attributes:
        lines: the records that it printed so far.
    """

    folder: Path
    process: subprocess.Popen[str]
    lines: list[dict[str, Any]] = field(default_factory=list)

    def rows(self, count: int | None = None) -> Iterator[dict[str, Any]]:
        """The next rows that it prints, as they come; all without a count."""
        assert self.process.stdout is not None
        while count is None or count > 0:
            line = self.process.stdout.readline()
            if not line:
                return
            row = json.loads(line)
            if row["schema"].startswith("fmha.record/"):
                self.lines.append(row)
                count = None if count is None else count - 1
                yield row

    def hear(self, text: str) -> bool:
        """Wait until it says a line with a text; False if it ends without."""
        assert self.process.stderr is not None
        return any(text in line for line in self.process.stderr)

    def end(self) -> tuple[int, str]:
        """Read all that is left: the exit code, and what it said."""
        list(self.rows())
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        return self.process.wait(60), said

    @property
    def workers(self) -> list[int]:
        """The process ids of its workers that run."""
        return [pid for pid in children_of(self.process.pid) if "fmha_cli.sweeps.child" in words_of(pid)]

    @property
    def run(self) -> str:
        """The id of the sweep."""
        return str(self.lines[0]["run"]["id"])


def environ_of(folder: Path, devices: int = DEVICES) -> dict[str, str]:
    """Variables for a sweep whose state, store and logs are in a folder."""
    (folder / "log").mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if name != "FMHA_NO_STORE"}
    return environ | {
        "NULL_BACKEND_DEVICES": str(devices),
        "NULL_BACKEND_LOG": str(folder / "log"),
        "XDG_STATE_HOME": str(folder / "state"),
        "FMHA_STORE": str(folder / "store.sqlite"),
    }


def start(folder: Path, *argv: str, devices: int = DEVICES) -> Swept:
    """Start a command that prints rows."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fmha_cli", *argv, "--jsonl"],
        env=environ_of(folder, devices),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
        cwd=folder,
    )
    return Swept(folder, process)


def sweep_of(*flags: str, chunk: int = 8, devices: str = "all") -> Sequence[str]:
    """The words of a sweep of small problems over the null backend."""
    words = ("sweep", "--step", "run", "--backend", "null", "--devices", devices, "-d", "16", "--chunk", str(chunk))
    return (*words, *flags)


def children_of(pid: int) -> list[int]:
    """The live children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and running(int(entry.name)):
            try:
                fields = (entry / "stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """The live processes below a process."""
    below = children_of(pid)
    return [*below, *(deeper for child in below for deeper in descendants(child))]


def words_of(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def uses(folder: Path) -> Counter[str]:
    """How often two processes used a device at once, and how often one used it alone, by the logs of the devices."""
    counts: Counter[str] = Counter()
    for log in (folder / "log").glob("*.log"):
        spans = []
        for line in log.read_text().splitlines():
            _, begin, end = line.split()
            counts["overlap" if end == "overlap" else "alone"] += 1
            if end != "overlap":
                spans.append((int(begin), int(end)))
        spans.sort()
        counts["overlap"] += sum(later[0] < earlier[1] for earlier, later in pairwise(spans))
    return counts


def kept(folder: Path, run: str) -> Counter[str]:
    """Row keys in the store -> how often they are there."""
    return Counter(str(record.row) for record in load_run(run, folder / "store.sqlite").records)


def nothing_lost(swept: Swept, planned: int) -> None:
    """Every planned row was printed once and kept once, and no device was used by two processes at once."""
    keys = Counter(row["row"] for row in swept.lines)
    assert (len(keys), max(keys.values())) == (planned, 1)
    assert kept(swept.folder, swept.run) == keys
    counts = uses(swept.folder)
    assert counts["overlap"] == 0
    assert counts["alone"] >= planned


def kill(pid: int, how: signal.Signals = signal.SIGKILL) -> bool:
    """Send a signal; False if the process is gone."""
    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return False
    return True
