"""Reading the file of ``bench --baseline``: every row goes through the codec, and rows with bad verdicts are left out."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.reading import regular_bytes
from fmha_cli.report.reading import content_of
from fmha_cli.run.baseline import Baseline


def load_baseline(path: Path) -> Baseline:
    """The timed rows of a report that ``--json`` or ``--jsonl`` wrote. Emulated devices have no times.

    Raises:
        UsageError: it cannot be read, is not a report, or holds no good timed row.
    """
    try:
        records = content_of(regular_bytes(path)).records
    except (OSError, DecodeError) as fault:
        raise _unusable(path, (isinstance(fault, OSError) and fault.strerror) or str(fault)) from fault
    timed = [r for r in records if r.measurement is not None and not is_emulated(r.device)]
    good = tuple(r for r in timed if r.verdict.exit_code is ExitCode.OK)
    if not good:
        raise _unusable(path, "its timed rows are wrong or not to be trusted" if timed else "it holds no timed row")
    return Baseline(path.name, good, len(timed) - len(good))


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"--baseline {path}: not a report of fmha bench",
        code="E040",
        where="--baseline",
        why=why,
        help="fmha bench ... --json -o FILE writes one",
    )
