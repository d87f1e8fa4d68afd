"""Reading the file of ``bench --baseline``: every row goes through the codec, and rows with bad verdicts are left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.reading import parsed, regular_bytes
from fmha_cli.report.record import Record
from fmha_cli.walk.baseline import Baseline


def load_baseline(path: Path) -> Baseline:
    """The timed rows of a report that ``--json`` or ``--jsonl`` wrote. Emulated devices have no times.

    Raises:
        UsageError: it cannot be read, is not a report, or holds no good timed row.
    """
    try:
        records = tuple(_records(regular_bytes(path)))
    except (OSError, DecodeError) as fault:
        raise _unusable(path, (isinstance(fault, OSError) and fault.strerror) or str(fault)) from fault
    timed = [r for r in records if r.measurement is not None and not is_emulated(r.device)]
    good = tuple(r for r in timed if r.verdict.exit_code is ExitCode.OK)
    if not good:
        raise _unusable(path, "its timed rows are wrong or not to be trusted" if timed else "it holds no timed row")
    return Baseline(path.name, good, len(timed) - len(good))


def _records(data: bytes) -> Iterator[Record]:
    """The rows of a report, of one row, or of a row in each line.

    Raises:
        DecodeError: none of them.
    """
    lines = {number: line for number, line in enumerate(data.splitlines(), 1) if line.strip()}
    try:
        document = parsed(data)
    except DecodeError:
        if len(lines) < 2:
            raise
        for number, line in lines.items():
            try:
                yield Record.from_dict(parsed(line), f"line {number}")
            except DecodeError as fault:
                raise fault if fault.path else fault.within(f"line {number}") from fault
        return
    if not isinstance(document, dict) or document.get("schema") != "fmha.report/1":
        yield Record.from_dict(document, "the document")
        return
    rows = document.get("records")
    if not isinstance(rows, list):
        raise DecodeError("not a list", "records")
    for index, row in enumerate(rows):
        yield Record.from_dict(row, f"records[{index}]")


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--baseline {path}: not a report of fmha bench",
        code="E040",
        where="--baseline",
        why=why,
        help="fmha bench ... --json -o FILE writes one",
    )
