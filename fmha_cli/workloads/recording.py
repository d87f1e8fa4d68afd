"""A client's own recording: JSON Lines of ``RecordedCall``, written by ``WorkloadRecorder``. ``--workload`` reads it.

The file is replaced as a whole, under a lock: several processes may record into one folder, and their counts add up.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import RLock

from fmha_cli.domain.codec import DecodeError, from_json, to_json
from fmha_cli.domain.errors import EnvironmentProblem, ImpossibleProblem, UsageError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.reading import parsed
from fmha_cli.domain.workload import NO_FLAGS, RecordedCall, WorkloadCall
from fmha_cli.system.locks import claim, release
from fmha_cli.toolchain.cache.files import replacing

NAME = "workload.jsonl"
"""The file in the folder of a recorder."""
EVERY_S = 1.0
"""Seconds between two writes; a killed process loses no more of its counts, unless a write takes longer than a part of them."""
_PART = 20
"""Writing takes at most one of so many parts of the time: a recording with very many problems is written less often."""
_WAIT_S = 30.0
"""Seconds for which other processes may have the file."""

_Key = tuple[str | None, str | None, str | None]


class WorkloadRecorder(AbstractContextManager["WorkloadRecorder"]):
    """Counts the distinct calls of a client in ``FOLDER/workload.jsonl``.

    Counts of several threads, processes and runs add up; a forked process counts for itself. What is not written yet is written
    by ``flush`` and ``close``, and when the process exits.

    Args:
        folder: made if it does not exist.

    Attributes:
        path: the file.

    Raises:
        UsageError: E080, the file is there and is no recording.
        EnvironmentProblem: X040, the folder or the file cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / NAME
        self._pending: dict[_Key, int] = {}
        self._flags: dict[Problem, str] = {}
        self._lock = RLock()
        self._next = 0.0
        self._write({})
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._forked)

    def record(self, problem: Problem, count: int = 1) -> None:
        """Count calls of a problem.

        Raises:
            UsageError, EnvironmentProblem: see ``flush``; a write is due about once a second.
        """
        with self._lock:
            flags = self._flags.get(problem)
            if flags is None:
                flags = self._flags[problem] = problem.repro()
            self._add((flags, None, None), count)

    def refuse(self, call: str, reason: str, count: int = 1) -> None:
        """Count calls that no problem describes, so that the counts of the file add up.

        Args:
            call: the call in a few words, alike for like calls.
            reason: why no problem describes it.

        Raises:
            UsageError, EnvironmentProblem: see ``flush``.
        """
        with self._lock:
            self._add((None, call, reason), count)

    def flush(self) -> None:
        """Write what is counted.

        Raises:
            UsageError: E080, another program changed the file.
            EnvironmentProblem: X040, it cannot be written. The counts are kept for the next try.
        """
        with self._lock:
            if self._pending:
                start = time.monotonic()
                self._write(self._pending)
                end = time.monotonic()
                self._pending, self._next = {}, end + max(EVERY_S, _PART * (end - start))

    def close(self) -> None:
        """Write what is counted. Raises what ``flush`` raises."""
        self.flush()

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _add(self, key: _Key, count: int) -> None:
        if count < 1:
            raise UsageError(f"a count of {count}", code="E043", where="count", help="at least 1")
        self._pending[key] = self._pending.get(key, 0) + count
        if time.monotonic() >= self._next:
            self.flush()

    def _write(self, more: Mapping[_Key, int]) -> None:
        """Add counts to those of the file; it is made if it does not exist."""
        lock = self.path.with_name(f".{NAME}.lock")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            held = claim(lock, _WAIT_S)
            if held is None:
                raise TimeoutError(f"other processes have had it for {_WAIT_S:.0f} s")
            try:
                counts = self._counts()
                if counts is not None and not more:
                    return
                counts = counts or {}
                for key, count in more.items():
                    counts[key] = counts.get(key, 0) + count
                with replacing(self.path) as file:
                    file.write(_text(counts).encode())
            finally:
                release(lock, held)
        except OSError as fault:
            what, why = f"{self.path} cannot be written", fault.strerror or str(fault)
            help = "name a folder that you may write to"
            raise EnvironmentProblem(what, code="X040", where=str(self.path), why=why, help=help) from fault

    def _counts(self) -> dict[_Key, int] | None:
        """The counts of the file; None if there is none."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        counts: dict[_Key, int] = {}
        for _, one in recorded_lines(enumerate(text.splitlines(), 1), str(self.path)):
            key = (one.flags, one.call, one.reason)
            counts[key] = counts.get(key, 0) + one.count
        return counts

    def _forked(self) -> None:
        """In a forked process: what the parent counted is the parent's, and its lock may be held by a thread that is not here."""
        self._lock, self._pending = RLock(), {}


def _text(counts: Mapping[_Key, int]) -> str:
    lines = (
        to_json(RecordedCall(count=count, flags=flags, call=call, reason=reason))
        for (flags, call, reason), count in counts.items()
    )
    return "".join(f"{json.dumps(line, sort_keys=True, ensure_ascii=False)}\n" for line in lines)


def recorded_lines(lines: Iterable[tuple[int, bytes]], path: str) -> Iterator[tuple[int, RecordedCall]]:
    """The calls of a recording, each with the number of its line; empty lines are passed over.

    Raises:
        UsageError: E080, a line is damaged or of another version.
    """
    for number, line in lines:
        if line.strip():
            try:
                yield number, from_json(RecordedCall, parsed(line))
            except DecodeError as fault:
                help = "`fmha schema workload` prints the form of a line"
                what = f"{path} is no recording that this fmha reads"
                raise UsageError(what, code="E080", where=f"line {number}", why=str(fault), help=help) from None


def recorded_calls(lines: Iterable[tuple[int, bytes]], path: str) -> Iterator[WorkloadCall]:
    """The calls of a recording.

    Raises:
        UsageError: E080, a line is damaged or of another version, or its flags are not those of a problem.
    """
    for number, one in recorded_lines(lines, path):
        place = f"line {number}"
        if one.flags is None:
            assert one.call is not None
            yield WorkloadCall(count=one.count, place=one.call, reason=NO_FLAGS(one.reason or ""))
            continue
        try:
            problem = Problem.from_cli(one.flags)
        except (UsageError, ImpossibleProblem) as fault:
            what = f"{path}: the flags of a call define no problem"
            raise UsageError(what, code="E080", where=place, why=fault.in_one_line, help=fault.help) from fault
        yield WorkloadCall(count=one.count, place=place, problem=problem)
