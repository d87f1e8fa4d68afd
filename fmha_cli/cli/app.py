"""The entry point ``fmha``: parse the command line, run one command, and turn every outcome into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from fmha_cli.cli.commands import COMMANDS, MAY_STAND_ALONE
from fmha_cli.cli.parser import CommandLine, ParsedCommand, Parser
from fmha_cli.cli.streams import arrives, flush_stdout, silence, unwritable
from fmha_cli.domain.blas import use_one_thread
from fmha_cli.system.processes import ending_signals


def main() -> NoReturn:
    """``fmha`` as the shell calls it. SIGTERM (from CI, ``timeout``) and SIGHUP (a closed terminal) act like Ctrl-C: no
    compiler outlives the command, and its journal can be resumed."""
    for ended_by in ending_signals():
        if signal.getsignal(ended_by) is signal.SIG_DFL:  # not where nohup ignores it
            signal.signal(ended_by, signal.default_int_handler)
    _open_streams()
    use_one_thread(os.environ)
    code = run(sys.argv[1:], os.environ)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # all is done: while Python ends, Ctrl-C would change the exit code
    sys.exit(code)


def _open_streams() -> None:
    """Give a standard stream that the caller closed (``2>&-``) a descriptor that leads nowhere, so no other file gets
    its number. Talk then goes there; data for a closed stdout are an error (``Output.check``).
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it is open until the process ends


def run(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run one command line and return its exit code; print errors instead of raising them."""
    line = CommandLine(tuple(argv), environ)
    try:
        found = _parse(line)
        if isinstance(found, int):
            code = found
        else:
            from fmha_cli.cli.invoke import invoke  # 25 ms, which help does without

            code = invoke(found, line)
        flush_stdout()
        return code
    except (Exception, KeyboardInterrupt) as fault:  # noqa: BLE001 - any exception that is no FmhaError is reported as a bug
        from fmha_cli.cli.failure import report

        return report(fault, line)


def _parse(line: CommandLine) -> ParsedCommand | int:
    """The command that was called; an exit code, where help was printed or a plugin's command ran.

    Raises:
        FmhaError: a usage error; help that cannot be written.
    """
    parser, stdout = Parser(), sys.stdout
    try:
        return parser.parse(words_of(line.argv))
    except SystemExit as end:
        if sys.stdout is stdout:
            raise
        silence(stdout)  # its reader closed the pipe, and Typer replaced it
        return 0 if end.code == 1 else int(end.code or 0)
    except OSError as fault:
        if parser.running and arrives(stdout):  # the plugin's own
            raise
        silence(stdout)
        raise unwritable(fault) from fault


def words_of(argv: Sequence[str]) -> list[str]:
    """The words for the parser: ``help bench`` is ``bench --help``, as in git and cargo; an option whose value may be left
    out gets the value that this means."""
    words = [*argv[1:], "--help"] if argv[:1] in (["help"], ("help",)) else list(argv)
    end = words.index("--") if "--" in words else len(words)
    if not any(word in COMMANDS for word in words[:end]):  # the words of a plugin's command are the plugin's
        return words
    for place in range(end):
        alone = place + 1 >= end or words[place + 1].startswith("-")
        if words[place] in MAY_STAND_ALONE and alone:
            words[place] += f"={MAY_STAND_ALONE[words[place]]}"
    return words
