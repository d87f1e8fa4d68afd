"""Colours of verdicts. The command line decides whether to use colours (``--color``, ``NO_COLOR``)."""

from __future__ import annotations

from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.verdict import Verdict

_GREEN, _YELLOW, _RED = 32, 33, 31
_CAUTION = (Verdict.UNCHECKED, Verdict.UNSUPPORTED, Verdict.NOT_RUN)


def verdict_text(verdict: str, color: bool) -> str:
    """The verdict, in green, yellow (nothing was proved) or red."""
    if not color:
        return verdict
    known = Verdict(verdict)
    code = _YELLOW if known in _CAUTION else _GREEN if known.exit_code is ExitCode.OK else _RED
    return f"\x1b[{code}m{verdict}\x1b[0m"
