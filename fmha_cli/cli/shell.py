"""Typer from the command table: a group that imports a command's module only when the command is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from fmha_cli import __version__
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.completion import completer
from fmha_cli.cli.settings import FLAG, Value, check_choices, merge
from fmha_cli.cli.table import COMMANDS, TALK, CommandEntry, declared
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import NameKind, suggest

Invoke = Callable[[str, CommandSpec, Mapping[str, Value], Mapping[str, Any]], int]
"""invoke(command's full name, command, given options, arguments) -> exit code."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@dataclass
class Shell:
    """The command line of one process: the table of commands, and what to do when one is called."""

    invoke: Invoke
    plugins: Callable[[], Mapping[str, Callable[..., Any]]]
    table: Mapping[str, CommandEntry] = field(default_factory=lambda: COMMANDS)
    talk: dict[str, Value] = field(default_factory=dict)
    """Options given before the command's name."""

    def root(self) -> Any:
        """The group behind ``fmha``."""
        app = typer.Typer(
            cls=_root_class(self), rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=CONTEXT
        )

        def fmha(ctx: typer.Context, **given: Any) -> None:
            self.talk.update(_given(TALK, given))
            check_choices(TALK, merge([self.talk]))
            if ctx.invoked_subcommand is None and self.talk:
                raise UsageError("fmha: no command was given", code="E001", help="`fmha --help` lists them")
            if ctx.invoked_subcommand is None:
                typer.echo(ctx.get_help(), err=True)
                raise typer.Exit(2)

        version = typer.Option("--version", "-V", help="Print the version", is_eager=True, callback=_version)
        _sign(fmha, [_parameter("version", bool, version), *(p for option in TALK for p in _parameters(option))])
        app.callback(invoke_without_command=True, help="One command line for every fused attention kernel.")(fmha)
        return get_command(app)

    def command(self, name: str) -> Any:
        """The Typer command of a name in the table."""
        entry, found = self.table[name], declared(name)
        if not isinstance(found, CommandSet):
            return self.part(name, entry.summary, found)
        kind = _set_class(self, name, found)
        app = typer.Typer(cls=kind, add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
        self._group(app, name, entry.summary + ".", found)
        return get_command(app)

    def part(self, name: str, summary: str, command: CommandSpec) -> Any:
        """The Typer command of a command, or of a subcommand by both its words."""
        app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=CONTEXT)
        self._add(app, name, summary, command)
        return get_command(app)

    def _group(self, app: typer.Typer, name: str, help: str, parts: CommandSet) -> None:
        """The callback of a command with subcommands: it runs the default subcommand, if there is one."""
        if parts.alone is None:
            app.callback(help=help)(lambda: None)
            return
        part, (_, command) = f"{name} {parts.alone}", parts.commands[parts.alone]
        options = (*command.options, *TALK)

        def call(ctx: typer.Context, **given: Any) -> int:
            self.talk.update(_given(options, given))
            return 0 if ctx.invoked_subcommand else self.invoke(part, command, self.talk, {})

        _sign(call, [p for option in options for p in _parameters(option)])
        app.callback(invoke_without_command=True, help=f"{help} Alone: {parts.alone}.")(call)

    def _add(self, app: typer.Typer, name: str, summary: str, command: CommandSpec) -> None:
        options = (*command.options, *TALK)

        def call(**given: Any) -> int:
            taken = {a.name: _argument(a, given.get(a.name)) for a in command.arguments}
            return self.invoke(name, command, {**self.talk, **_given(options, given)}, taken)

        parameters = [_positional(a) for a in command.arguments]
        _sign(call, parameters + [p for option in options for p in _parameters(option)])
        detail = f"\n\n{command.detail}" if command.detail else ""
        app.command(name.rpartition(" ")[2], cls=_Sectioned, help=f"{summary}.{detail}")(call)


class _AsGiven:
    """Keeps values as the parser gives them: ``settings`` reads text, whatever its source."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return value


class _Unread:
    """Keeps Typer (0.29 and later) from building a pydantic adapter for every option: 40 ms and more a call."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if hasattr(param, "_runtime_param"):
                param._runtime_param = _AsGiven()
        return params


class _Group(_Unread, TyperGroup):
    """A command with subcommands."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._found(ctx, cmd_name, self.list_commands(ctx))

    def _found(self, ctx: Any, name: str, known: Iterable[str]) -> Any:
        """The command of a name. Raises UsageError: E001, no such command, with near names."""
        found = super().get_command(ctx, name)
        if found is None and not ctx.resilient_parsing and not name.startswith("-"):
            help = suggest(name, known, NameKind.COMMAND, f"`{ctx.command_path} --help` lists them")
            raise UsageError(f"{ctx.command_path} {name}: no such command", code="E001", help=help)
        return found


class _Headed:
    """Options under headings in the help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):  # type: ignore[attr-defined]
            record = param.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if param.param_type_name == "argument" else "Other options"
                sections.setdefault(getattr(param, "rich_help_panel", None) or kind, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class _Sectioned(_Unread, _Headed, TyperCommand):
    """A command whose help shows its options under headings."""


class _Choosing(_Headed, _Group):
    """A command with subcommands and its own options; the help shows the subcommands first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def _set_class(shell: Shell, name: str, parts: CommandSet) -> type[TyperGroup]:
    class Set(_Choosing if parts.alone is not None else _Group):  # type: ignore[misc]
        """A command with subcommands, each of which is built on first use."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(parts.commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in parts.commands:
                return super().get_command(ctx, cmd_name)
            return shell.part(f"{name} {cmd_name}", *parts.commands[cmd_name])

    return Set


def _root_class(shell: Shell) -> type[TyperGroup]:
    class Root(_Group):
        """``fmha``: commands come from the table, then from plugins (imported only for an unknown name)."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(shell.table)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in shell.table:
                return shell.command(cmd_name)
            added = {} if ctx.resilient_parsing else shell.plugins()
            if cmd_name in added:
                app = typer.Typer(add_completion=False, rich_markup_mode=None)
                app.command(cmd_name)(added[cmd_name])
                return get_command(app)
            return self._found(ctx, cmd_name, (*shell.table, *added))

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.summary) for name, entry in shell.table.items()])
            formatter.write_paragraph()
            formatter.write_text(
                "`fmha help COMMAND` shows a command's help. Plugins may add commands; `fmha plugins` names them."
            )

    return Root


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fmha {__version__}")
        raise typer.Exit


def _given(options: tuple[Opt, ...], given: Mapping[str, Any]) -> dict[str, Value]:
    """The options that were given on the command line, as values."""
    out: dict[str, Value] = {}
    for option in options:
        value = given.get(_named(option))
        if option.is_switch and given.get(_undone(option)):
            out[option.key] = Value(False, FLAG)
        elif value == "" or (isinstance(value, list | tuple) and "" in value):
            what = f"--{option.name} needs a value"
            raise UsageError(
                what, code="E002", where=f"--{option.name}", help=f"--{option.name} {option.placeholder}: {option.help}"
            )
        elif value:
            out[option.key] = Value(tuple(value) if isinstance(value, list | tuple) else value, FLAG)
    return out


def _argument(argument: Argument, value: Any) -> Any:
    """The value of a positional argument. Raises UsageError: E002, an empty one, as of a variable that is not set."""
    if not argument.blank and (value == "" or (isinstance(value, list | tuple) and "" in value)):
        where = argument.name.upper()
        raise UsageError(f"{where} needs a value", code="E002", where=where, help=argument.help)
    return value


def _named(option: Opt) -> str:
    """The name of an option's parameter, which may be no word of Python (``--from``)."""
    return f"{option.key}_" if iskeyword(option.key) else option.key


def _undone(option: Opt) -> str:
    return f"undo_{option.key}"


def _parameters(option: Opt) -> list[inspect.Parameter]:
    """The Typer parameter of an option, and the hidden one that takes a switch back."""
    names = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
    if option.is_switch:
        info = typer.Option(*names, help=option.help, rich_help_panel=option.panel, show_default=False)
        if option.lasting:
            return [_parameter(_named(option), bool, info)]
        undo = typer.Option(f"--{option.negation}", hidden=True)
        return [_parameter(_named(option), bool, info), _parameter(_undone(option), bool, undo)]
    info = typer.Option(
        *names,
        help=option.help,
        metavar=option.placeholder,
        rich_help_panel=option.panel,
        show_default=False,
        autocompletion=completer(option.complete, option.choices, option.sweeps or option.lists),
    )
    kind: Any = tuple[str, str] if option.pair else list[str] if option.repeats else str
    return [_parameter(_named(option), kind, info)]


def _positional(argument: Argument) -> inspect.Parameter:
    info = typer.Argument(
        help=argument.help,
        metavar=argument.name.upper() + ("..." if argument.many else ""),
        autocompletion=completer(argument.complete, (), False),
    )
    return _parameter(argument.name, list[str] if argument.many else str, info, required=argument.required)


def _parameter(name: str, kind: Any, info: Any, *, required: bool = False) -> inspect.Parameter:
    """The definition from which Typer makes an option or argument. Its value is None if it was not given."""
    annotation, default = (kind, inspect.Parameter.empty) if required else (kind | None, None)
    name_only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, name_only, default=default, annotation=Annotated[annotation, info])


def _sign(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Give a function the parameters that Typer sees (its ``ctx`` is kept)."""
    own = [p for p in inspect.signature(function).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    hints = {p.name: typer.Context if p.name == "ctx" else p.annotation for p in (*own, *parameters)}
    own = [p.replace(annotation=hints[p.name]) for p in own]
    function.__annotations__ = hints
    setattr(function, "__signature__", inspect.Signature([*own, *parameters]))  # noqa: B010 - unknown to type checkers
