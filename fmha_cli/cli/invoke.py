"""From a parsed command to its exit code: the value of every option, the checks before any work, and the command itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import Opt
from fmha_cli.cli.commands import TALK, known_options
from fmha_cli.cli.config import PREFIX, config_files, current_folder, layers_of_file, strange_variables
from fmha_cli.cli.console import Console
from fmha_cli.cli.options import EXCLUDES
from fmha_cli.cli.parser import CommandLine, ParsedCommand
from fmha_cli.cli.settings import FLAG, Layer, OptionValues, Value, check_choices, layer_of_variables, variable_of
from fmha_cli.cli.streams import colored, terminal_width
from fmha_cli.domain.arch import arch_of
from fmha_cli.domain.errors import FmhaError
from fmha_cli.toolchain.cache.root import temporary_root


def invoke(parsed: ParsedCommand, line: CommandLine) -> int:
    """Run a command and return its exit code. The line learns how the command is to be reported.

    Raises:
        FmhaError: whatever ends the command.
    """
    name, command = parsed.name, parsed.command
    options, files = (*command.options, *TALK), config_files(current_folder())
    line.command = name
    elsewhere = [option for option in options if not option.flag_only]
    layers = [parsed.given, layer_of_variables(elsewhere, line.environ)]
    known = known_options() if files else {}
    for path in files:
        layers += layers_of_file(path, name.partition(" ")[0], elsewhere, known)
    settings = merge(layers)
    color = settings.text("color") or "auto"
    console = line.console = Console(
        quiet=settings.on("quiet"),
        verbose=settings.on("verbose"),
        color=colored(sys.stderr, color, line.environ),
        width=terminal_width(line.environ, sys.stderr),
    )
    on_stdout = colored(sys.stdout, color, line.environ)
    call = CliCall(name, line.argv, settings, parsed.arguments, console, line.environ, files, on_stdout)
    line.output = call.output
    if any(option.key == "cache_dir" for option in options) and settings.text("cache_dir") is None:
        _warn_of_cache(call)
    call.output.check(command.documents)
    refuse_overwriting_inputs(call, options)
    check_choices(options, settings)
    _warn_of_variables(call, options)
    for key, value in settings.values.items():
        if value.source != FLAG:
            console.detail(f"{settings.where(key)}: {value.value}")
    try:
        return command.function(call) or 0
    except FmhaError as error:
        _name_as_given(error, settings)
        error.where = settings.located(error.where, error.what)
        raise


def _warn_of_cache(call: CliCall) -> None:
    """One line where the default cache cannot be written, and a temporary one is used."""
    if call.cache_root == temporary_root():
        text = (
            f"the default cache cannot be written; until the system empties it, kernels are kept in {call.cache_root}"
        )
        call.console.warn(f"{text} (--cache-dir or FMHA_CACHE_DIR names another place)")


def _warn_of_variables(call: CliCall, options: Sequence[Opt]) -> None:
    """One line for each ``FMHA_*`` variable that nothing reads. Other commands are imported only if one is set that
    is none of this command's."""
    own = {variable_of(option) for option in options}
    if any(name.startswith(PREFIX) and name not in own for name in call.environ):
        everything = {name for names in known_options().values() for name in names}
        for name, help in strange_variables(call.environ, everything).items():
            call.console.warn(f"{name} is set, but nothing reads it: {help}")


def merge(layers: Sequence[Layer]) -> OptionValues:
    """The settings of several layers, strongest first; a value drops what it excludes in weaker layers. A product in the place of an
    architecture becomes its architecture."""
    out: dict[str, Value] = {}
    excluded: set[str] = set()
    for layer in layers:
        here = {key: value for key, value in layer.items() if key not in excluded and key not in out}
        out.update(here)
        excluded.update(
            other for key, value in here.items() if value.value is not False for other in EXCLUDES.get(key, ())
        )
    if "arch" in out:
        out["arch"] = replace(out["arch"], value=arch_of(str(out["arch"].value)))
    return OptionValues(out)


def _name_as_given(error: FmhaError, settings: OptionValues) -> None:
    """Let an error about a kernel name the option that named it, which need not be ``--kernel``."""
    given = next((key for key in ("ab", "why", "select") if key in settings.values), None)
    if error.where == "--kernel" and given is not None and "kernel" not in settings.values:
        error.where = f"--{given}"
        error.what = error.what.replace("--kernel", error.where, 1)


_READ = ("baseline", "problems", "shapes", "from", "compare", "store")


def refuse_overwriting_inputs(call: CliCall, options: Sequence[Opt]) -> None:
    """Refuse an output whose file is read by any other option or argument, by whatever name or link.

    Raises:
        UsageError: E038.
    """
    written = (option.key for option in options if option.writes)
    targets = {key: text for key in written if (text := call.settings.text(key))}
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
