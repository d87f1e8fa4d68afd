"""Two commands that take turns: each turn is one fresh process, and the order of each round is the last one's reversed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from shutil import which
from typing import BinaryIO

from fmha_cli.bench.sampling import orders
from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.report.reading import content_of
from fmha_cli.report.record import Record
from fmha_cli.results.conditions import is_timed

ONLY = "FMHA_ONLY"
"""The variable that restricts a command to some of its problems. One that ignores it runs all of them."""

_WITH_ROWS = (ExitCode.OK, ExitCode.WRONG, ExitCode.UNSUPPORTED, ExitCode.ENVIRONMENT, ExitCode.FAILED)
"""Exit codes of a command that did what it could; its rows have the outcomes."""

_PATIENCE_S = 10.0
"""How long a command may take to end after a signal."""


@dataclass(frozen=True)
class Turns:
    """The two commands.

    Attributes:
        commands: the words of each.
        environ: the variables that both get.
        tell: takes the turns that are done, how many there are in all, and the side that runs (0 or 1).
    """

    commands: tuple[tuple[str, ...], tuple[str, ...]]
    environ: Mapping[str, str]
    tell: Callable[[int, int, int], None] = field(default=lambda done, total, side: None)

    def run(self, processes: int, only: Iterable[Record] = ()) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
        """The records of each side from so many processes of each, in the order in which they ran.

        Args:
            only: rows whose problems are enough; without them every problem is run.

        Raises:
            UsageError: E058, a command prints no rows.
        """
        for command in self.commands:
            if which(command[0], path=self.environ.get("PATH")) is None:
                what, why = f"--run {' '.join(command)}: does not start", "no program of this name is found"
                help = "install it, or name it by its path"
                raise UsageError(what, code="E058", where="--run", why=why, help=help)
        digests = ",".join(dict.fromkeys(problem_digest(record) for record in only))
        environ = {**self.environ, **({ONLY: digests} if digests else {})}
        sides: tuple[list[Record], list[Record]] = ([], [])
        turns = [side for order in orders(processes) for side in order]
        for done, side in enumerate(turns):
            self.tell(done, len(turns), side)
            sides[side].extend(map(_one_process, _records(self.commands[side], environ)))
        return tuple(sides[0]), tuple(sides[1])


def problem_digest(record: Record) -> str:
    """What names a row's problem in ``FMHA_ONLY``."""
    return digest_of(dict(record.problem))[:16]


def _one_process(record: Record) -> Record:
    """The record with all samples of its turn as those of one process: what ran within a turn was not interleaved."""
    measured = record.measurement
    if measured is None or not is_timed(record):
        return record
    return replace(record, measurement=replace(measured, process_of_sample=None))


def _records(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[Record]:
    text = " ".join(command)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            code = _ended(command, environ, out, err)
        except OSError as fault:
            why = fault.strerror or str(fault)
            raise UsageError(f"--run {text}: does not start", code="E058", where="--run", why=why) from fault
        out.seek(0)
        err.seek(0)
        said = err.read().decode("utf-8", "replace").strip().splitlines()
        try:
            text_out = out.read()
            if code not in list(_WITH_ROWS) or not text_out.strip():
                raise DecodeError(f"exit code {code}: {said[0] if said else 'it printed nothing'}")
            yield from content_of(text_out).records
        except DecodeError as fault:
            help = "a command of --run is fmha bench ..., or a script that prints the rows of one with --jsonl"
            raise UsageError(
                f"--run {text}: printed no rows", code="E058", where="--run", why=str(fault), help=help
            ) from fault


def _ended(command: Sequence[str], environ: Mapping[str, str], out: BinaryIO, err: BinaryIO) -> int:
    """The exit status of a command that writes to two files."""
    with (
        subprocess.Popen(command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=out, stderr=err) as process,
        _ending(process),
    ):
        return process.wait()


@contextmanager
def _ending(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End the process where the body does not end by itself (Ctrl-C), so it can end its own worker."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE_S)
            process.kill()
