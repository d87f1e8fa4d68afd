"""How every exception is reported: text on stderr, a document with ``--json``, and the exit code."""

from __future__ import annotations

import json
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from fmha_cli import __version__
from fmha_cli.cli.commands import COMMANDS
from fmha_cli.cli.console import Console
from fmha_cli.cli.output import Output
from fmha_cli.cli.parser import CommandLine
from fmha_cli.cli.streams import colored, terminal_width
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.domain.blame import package_of, place_of
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, FmhaError, InternalError, UsageError
from fmha_cli.domain.mask import SPELLINGS
from fmha_cli.domain.suggest import NameKind, near_names, note_on
from fmha_cli.report.form import Format

_READ_TOO = "E038"
"""The file of ``-o`` is one that is read: no document of an error may replace it either."""


def report(fault: BaseException, line: CommandLine) -> int:
    """Report what ended a command line. Returns the exit code."""
    width = terminal_width(line.environ, sys.stderr)
    console = line.console or Console(color=colored(sys.stderr, "auto", line.environ), width=width)
    if isinstance(fault, KeyboardInterrupt):
        console.error("interrupted")
        return int(ExitCode.INTERRUPTED)
    typers = hasattr(fault, "format_message")  # from whichever parser Typer carries
    error = _from_typer(fault, line.command) if typers else fault
    if isinstance(error, FmhaError) and not isinstance(error, InternalError):
        return _report(error, console, line.output or _output_of(line), line.command)
    return _report_bug(error, console, line.argv)


def _output_of(line: CommandLine) -> Output:
    """Where the error of a line goes that could not be parsed."""
    words = line.argv[: line.argv.index("--")] if "--" in line.argv else line.argv
    wants_json = "--json" in words or line.environ.get("FMHA_JSON", "").lower() in ("1", "true", "yes", "on")
    return Output(Format.JSON if wants_json else Format.TABLE, None, color=False)


def _from_typer(error: Any, command: str | None) -> FmhaError:
    """Typer's complaint about the command line as a ``UsageError``, with near names of options."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else f"fmha {command or ''}".rstrip()
    name, help = getattr(error, "option_name", None), f"`{path} --help`"
    if type(error).__name__ == "NoSuchOption" and context is not None:
        shown = [p for p in context.command.get_params(context) if not getattr(p, "hidden", False)]
        flags = {opt.removeprefix("--"): opt for param in shown for opt in param.opts if opt.startswith("--")}
        word = str(name).lstrip("-")
        near = [flags[flag] for flag in near_names(word, flags, NameKind.OPTION)]
        others = note_on(word, flags, NameKind.OPTION) or f"`{path} --help` lists them"
        help = f"did you mean {' or '.join(near)}?" if near else others
        return UsageError(f"{path}: no such option {name}", code="E001", where=name, help=help)
    if context is not None and hasattr(context.command, "list_commands") and context.args == []:
        help = f"one of {', '.join(context.command.list_commands(context))}"
    what = str(error.format_message()).rstrip(".")
    return UsageError(f"{path}: {what[:1].lower()}{what[1:]}", code="E002", where=name, help=help)


def _report(error: FmhaError, console: Console, output: Output, command: str | None) -> int:
    """Report the error on stderr, and as a document with ``--json``. Returns the exit code."""
    error.help = error.help or _remedy(error.code, command)
    console.error(error.render())
    code = error.exit_code
    if output.form is Format.JSON and code not in (ExitCode.INTERNAL, ExitCode.INTERRUPTED):
        from fmha_cli.report.documents.report import error_document  # 25 ms, which an error in text does without

        entry = COMMANDS.get(command or "")
        document = error_document(error, as_report=entry is not None and entry.report)
        stdout = Output(Format.JSON, None, color=False)
        for place in (stdout,) if error.code == _READ_TOO else (output, stdout):  # stdout, if the file of -o failed
            try:
                place.document(document)
                break
            except EnvironmentProblem:
                continue
    return int(code)


def _remedy(code: str, command: str | None) -> str | None:
    """The remedy for an error without one: the help of its page."""
    if code in ("E001", "E002"):
        return f"`fmha {command} --help` shows the form of every option" if command else "`fmha --help`"
    return None if code == "E000" else error_pages().get(code, ("", None))[1]


def error_pages() -> dict[str, tuple[str, str]]:
    """Every error code of this package with its meaning and remedy, from ``codes.json``."""
    data = json.loads(resources.files("fmha_cli.cli").joinpath("codes.json").read_text("utf-8"))
    return {code: (text, help.replace("{masks}", ", ".join(SPELLINGS))) for code, (text, help) in data.items()}


def _report_bug(fault: BaseException, console: Console, argv: Sequence[str]) -> int:
    """The bug report of an unexpected exception; the traceback goes to a file, or to stderr if no file can be written."""
    trace = "".join(traceback.format_exception(fault))
    last = next(reversed(traceback.extract_tb(fault.__traceback__)), None)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="fmha-traceback-", suffix=".txt", delete=False) as stream:
            stream.write(trace)
        kept = stream.name
    except OSError:
        console.error(trace)
        kept = "above"
    console.error(f"error[E070]: internal error: {type(fault).__name__}: {fault}")
    plugin = _plugin_at_fault(fault)
    facts = {
        "fmha": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "command": shlex.join(["fmha", *argv]),
        "raised in": plugin[1] if plugin else f"{Path(last.filename).name}, {last.name}" if last else "unknown",
        "traceback": kept,
    }
    whose = f"the plugin {plugin[0]}, not in fmha" if plugin else "fmha"
    console.error(f"  = help: this is a bug in {whose}; please report it with the lines below and the traceback")
    for name, value in facts.items():
        console.error(f"  {name:<10} {value}")
    return int(ExitCode.INTERNAL)


def _plugin_at_fault(fault: BaseException) -> tuple[str, str] | None:
    """The installed plugin whose code an exception came through, and the place in it; None if it passed through none."""
    places = ((entry.name, place_of(fault, package_of(entry.value))) for entry in installed_entry_points())
    return next(((name, place.removeprefix("in ")) for name, place in places if place), None)
