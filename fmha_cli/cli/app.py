"""The entry point ``fmha``: parse the command line, run one command, and turn every outcome into an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fmha_cli.cli import failure
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import CommandSet, CommandSpec, Opt
from fmha_cli.cli.console import Console, colored
from fmha_cli.cli.output import Output, flush_stdout, silence, unwritable
from fmha_cli.cli.settings import FLAG, OptionValues, Value, check_choices, layer_of_variables, merge, variable_of
from fmha_cli.cli.shell import Shell
from fmha_cli.cli.table import COMMANDS, MAY_STAND_ALONE, TALK, declared
from fmha_cli.cli.terminal import terminal_width
from fmha_cli.domain.blas import use_one_thread
from fmha_cli.domain.errors import FmhaError, InternalError
from fmha_cli.report.form import Format
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
    process = Process(tuple(argv), environ)
    try:
        code = process.shell.root().main(args=words_of(argv), prog_name="fmha", standalone_mode=False)
        flush_stdout()
        return int(code or 0)
    except KeyboardInterrupt:
        return failure.interrupted(process.console)
    except SystemExit as fault:
        if type(sys.stdout).__name__ != "PacifyFlushWrapper":
            raise
        silence(sys.stdout)  # the parser was printing help when the reader closed the pipe
        return 0 if fault.code == 1 else int(fault.code or 0)
    except Exception as fault:  # noqa: BLE001 - the last resort: any other exception is a bug, and is reported as one
        if isinstance(fault, OSError) and _while_printing_help(fault):
            silence(sys.stdout)
            return failure.report(unwritable(fault), process.console, process.output, process.command)
        typers = hasattr(fault, "format_message")  # from whichever parser Typer carries
        error = failure.from_typer(fault, process.command) if typers else fault
        if isinstance(error, FmhaError) and not isinstance(error, InternalError):
            return failure.report(error, process.console, process.output, process.command)
        return failure.bug(error, process.console, argv)


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


def _while_printing_help(fault: OSError) -> bool:
    """Whether the parser raised it because stdout cannot be written; it prints help itself, with its ``echo``."""
    last = fault.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and last.tb_frame.f_code.co_name == "echo"


class Process:
    """The known parts of this command line, for error reports."""

    def __init__(self, argv: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self.argv = argv
        self.environ = environ
        self.shell = Shell(self._invoke, self._plugin_commands)
        self.command = next((word for word in argv if word in COMMANDS), None)
        before = argv[: argv.index("--")] if "--" in argv else argv
        wants_json = "--json" in before or environ.get("FMHA_JSON", "").lower() in ("1", "true", "yes", "on")
        self.output: Output | None = Output(Format.JSON if wants_json else Format.TABLE, None, color=False)
        self.console = Console(color=colored(sys.stderr, "auto", environ), width=terminal_width(environ, sys.stderr))

    def _plugin_commands(self) -> Mapping[str, Callable[..., Any]]:
        from fmha_cli.discovery.entry_points import installed_entry_points

        if not installed_entry_points():
            return {}
        from fmha_cli.discovery.registry import Registry  # without the built-ins: they add no commands

        return Registry({}).commands

    def _invoke(self, name: str, command: CommandSpec, given: Mapping[str, Value], arguments: Mapping[str, Any]) -> int:
        try:
            return self._carried_out(name, command, given, arguments)
        except KeyboardInterrupt:  # Typer would end without a word
            return failure.interrupted(self.console)

    def _carried_out(
        self, name: str, command: CommandSpec, given: Mapping[str, Value], arguments: Mapping[str, Any]
    ) -> int:
        from fmha_cli.cli.config import config_files, current_folder, layers_of_file

        options, files = (*command.options, *TALK), config_files(current_folder())
        self.command = name
        elsewhere = [option for option in options if not option.flag_only]
        layers = [given, layer_of_variables(elsewhere, self.environ)]
        known = known_options() if files else {}
        for path in files:
            layers += layers_of_file(path, name.partition(" ")[0], elsewhere, known)
        settings = merge(layers)
        color = settings.text("color") or "auto"
        self.console = Console(
            quiet=settings.on("quiet"),
            verbose=settings.on("verbose"),
            color=colored(sys.stderr, color, self.environ),
            width=terminal_width(self.environ, sys.stderr),
        )
        on_stdout = colored(sys.stdout, color, self.environ)
        call = CliCall(name, self.argv, settings, arguments, self.console, self.environ, files, on_stdout)
        self.output = call.output
        if any(option.key == "cache_dir" for option in options) and settings.text("cache_dir") is None:
            self._warn_of_cache(call)
        call.output.check(command.documents)
        refuse_overwriting_inputs(call)
        check_choices(options, settings)
        self._warn_of_variables(options)
        for key, value in settings.values.items():
            if value.source != FLAG:
                self.console.detail(f"{settings.where(key)}: {value.value}")
        try:
            return command.run(call) or 0
        except FmhaError as error:
            _name_as_given(error, settings)
            error.where = settings.located(error.where, error.what)
            raise

    def _warn_of_cache(self, call: CliCall) -> None:
        """One line where the default cache cannot be written, and a temporary one is used."""
        from fmha_cli.toolchain.cache.root import temporary_root

        if call.cache_root == temporary_root():
            text = f"the default cache cannot be written; until the system empties it, kernels are kept in {call.cache_root}"
            self.console.warn(f"{text} (--cache-dir or FMHA_CACHE_DIR names another place)")

    def _warn_of_variables(self, options: Sequence[Opt]) -> None:
        """One line for each ``FMHA_*`` variable that nothing reads. Other commands are imported only if one is set that
        is none of this command's."""
        own = {variable_of(option) for option in options}
        if any(name.startswith("FMHA_") and name not in own for name in self.environ):
            from fmha_cli.cli.variables import strange_variables

            everything = {name for names in known_options().values() for name in names}
            for name, help in strange_variables(self.environ, everything).items():
                self.console.warn(f"{name} is set, but nothing reads it: {help}")


def _name_as_given(error: FmhaError, settings: OptionValues) -> None:
    """Let an error about a kernel name the option that named it, which need not be ``--kernel``."""
    given = next((key for key in ("ab", "why", "select") if key in settings.values), None)
    if error.where == "--kernel" and given is not None and "kernel" not in settings.values:
        error.where = f"--{given}"
        error.what = error.what.replace("--kernel", error.where, 1)


def known_options() -> dict[str, list[str]]:
    """Every command and the names of its options."""
    out: dict[str, list[str]] = {}
    for name in COMMANDS:
        found = declared(name)
        parts = [command for _, command in found.commands.values()] if isinstance(found, CommandSet) else [found]
        out[name] = [option.name for part in parts for option in (*part.options, *TALK)]
    return out


_WRITTEN = ("output", "html", "parquet", "jsonl", "csv", "out")
_READ = ("baseline", "problems", "shapes", "from", "compare", "store")


def refuse_overwriting_inputs(call: CliCall) -> None:
    """Refuse an output whose file is read by any other option or argument, by whatever name or link.

    Raises:
        UsageError: E038.
    """
    values = call.settings.values
    targets = {key: text for key in _WRITTEN if key in values and isinstance(text := values[key].value, str)}
    if not targets:
        return
    from fmha_cli.run.refusals import refuse_overwriting

    read: dict[str, Path] = {}
    for key in _READ:
        for text in call.settings.many(key):
            read.setdefault(f"--{key} {text}", Path(text))
    for name, given in call.arguments.items():
        for text in [given] if isinstance(given, str) else given or ():
            read.setdefault(f"{name.upper()} {text}", Path(text))
    for key, text in targets.items():
        refuse_overwriting((Path(text),), "-o" if key == "output" else f"--{key}", read)
