"""The parser: Typer, for the commands of the table. It imports a command's module only when the command is named, and runs
nothing but the commands of plugins: it returns what was given.

Typer has no groups of options, and the commands take 1,247 options of 168 names. So a command declares a tuple of ``Opt``, and
Typer reads the fields of a dataclass made of them as it reads the parameters of a function.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from functools import partial
from keyword import iskeyword
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from fmha_cli import __version__
from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.commands import COMMANDS, TALK, declared
from fmha_cli.cli.settings import FLAG, OptionValues, Value, check_choices
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import NameKind, suggest

if TYPE_CHECKING:
    from fmha_cli.cli.console import Console
    from fmha_cli.cli.output import Output

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "context_settings": CONTEXT}


@dataclass(frozen=True)
class ParsedCommand:
    """A command line.

    Attributes:
        name: the command's full name (``cache ls``).
        given: the options that were given, also those before the command's name.
        arguments: positional arguments by name, None or empty where not given.
    """

    name: str
    command: CommandSpec
    given: Mapping[str, Value]
    arguments: Mapping[str, Any]


@dataclass
class CommandLine:
    """The words after ``fmha``, the variables, and what is known so far of how an error is to be reported.

    Attributes:
        command: the command's full name; before it is parsed, the first word that is a command's.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    command: str | None = None
    console: "Console | None" = None
    output: "Output | None" = None

    def __post_init__(self) -> None:
        self.command = next((word for word in self.argv if word in COMMANDS), None)


def plugin_commands() -> Mapping[str, Callable[..., Any]]:
    """The commands that plugins add."""
    from fmha_cli.discovery.entry_points import installed_entry_points

    if not installed_entry_points():
        return {}
    from fmha_cli.discovery.registry import Registry  # without the built-ins: they add no commands

    return Registry({}).commands


class Parser:
    """The parser of one command line.

    Attributes:
        running: whether a plugin's command runs, which Typer calls; until then, all that is printed is help.
    """

    def __init__(self) -> None:
        self.running = False
        self._given: dict[str, Value] = {}
        self._found: ParsedCommand | None = None

    def parse(self, words: Sequence[str]) -> ParsedCommand | int:
        """The command, or the exit code where help was printed or a plugin's command ran.

        Raises:
            UsageError: E001, E002, E008.
            Exception: of Typer, with ``format_message``.
        """
        code = self.root().main(args=list(words), prog_name="fmha", standalone_mode=False)
        return self._found or int(code or 0)

    def root(self) -> Any:
        """The group behind ``fmha``."""
        app = typer.Typer(cls=_root_class(self), pretty_exceptions_enable=False, **_PLAIN)
        of_quiet, of_verbose, of_color = map(_info, TALK)

        @app.callback(invoke_without_command=True, help="One command line for every fused attention kernel.")
        def fmha(
            ctx: typer.Context,
            version: Annotated[
                bool, typer.Option("--version", "-V", help="Print the version", is_eager=True, callback=_version)
            ] = False,
            quiet: Annotated[bool, of_quiet] = False,
            undo_quiet: Annotated[bool, typer.Option("--no-quiet", hidden=True)] = False,
            verbose: Annotated[bool, of_verbose] = False,
            undo_verbose: Annotated[bool, typer.Option("--no-verbose", hidden=True)] = False,
            color: Annotated[str | None, of_color] = None,
        ) -> None:
            self._given.update(_options_given(TALK, ctx.params))
            check_choices(TALK, OptionValues(self._given))
            if ctx.invoked_subcommand is None and self._given:
                raise UsageError("fmha: no command was given", code="E001", help="`fmha --help` lists them")
            if ctx.invoked_subcommand is None:
                typer.echo(ctx.get_help(), err=True)
                raise typer.Exit(2)

        return get_command(app)

    def command(self, name: str) -> Any:
        """The Typer command of a name in the table."""
        summary, found = COMMANDS[name].summary, declared(name)
        if not isinstance(found, CommandSet):
            return self.part(name, summary, found)
        app = typer.Typer(cls=_set_class(self, name, found), add_completion=False, **_PLAIN)
        if found.alone is None:
            app.callback(help=f"{summary}.")(lambda: None)
            return get_command(app)
        part, (_, command) = f"{name} {found.alone}", found.commands[found.alone]

        def take(ctx: typer.Context, values: Mapping[str, Any]) -> None:
            self._given.update(_options_given((*command.options, *TALK), values))
            if ctx.invoked_subcommand is None:
                self._found = ParsedCommand(part, command, self._given, {})

        reader = _reader((), (*command.options, *TALK), take)
        app.callback(invoke_without_command=True, help=f"{summary}. Alone: {found.alone}.")(reader)
        return get_command(app)

    def part(self, name: str, summary: str, command: CommandSpec) -> Any:
        """The Typer command of a command, or of a subcommand by both its words."""
        options = (*command.options, *TALK)

        def take(ctx: typer.Context, values: Mapping[str, Any]) -> None:
            arguments = {a.name: _argument(a, values[a.name]) for a in command.arguments}
            self._found = ParsedCommand(name, command, {**self._given, **_options_given(options, values)}, arguments)

        app = typer.Typer(add_completion=False, **_PLAIN)
        detail = f"\n\n{command.detail}" if command.detail else ""
        reader = _reader(command.arguments, options, take)
        app.command(name.rpartition(" ")[2], cls=_Sectioned, help=f"{summary}.{detail}")(reader)
        return get_command(app)

    def of_plugin(self, name: str, function: Callable[..., Any]) -> Any:
        """The Typer command of a plugin, whose function is Typer's to read and to call."""
        parser = self

        class Added(TyperCommand):
            """A command that Typer calls."""

            def invoke(self, ctx: Any) -> Any:
                parser.running = True
                return super().invoke(ctx)

        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=Added)(function)
        return get_command(app)


class _Texts:
    """Keeps every option the text that was given: ``settings`` reads the texts of all sources alike. For its own conversion
    Typer (0.29 and later) imports pydantic and builds an adapter for each option: 57 ms a call."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            vars(param).setdefault("process_value", partial(_process_text, param))
        return params


def _process_text(param: Any, ctx: Any, value: Any) -> Any:
    """A parameter's value without a conversion, in place of its ``process_value``."""
    given = value if isinstance(value, str | bool | list | tuple) else None  # Click 8.3 marks what is missing
    if param.required and not given:
        return type(param).process_value(param, ctx, value)  # says so
    if given is None and (param.nargs == -1 or getattr(param, "multiple", False)):
        given = ()
    return given if param.callback is None else param.callback(ctx, param, given)


class _Group(_Texts, TyperGroup):
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


class _Sectioned(_Texts, _Headed, TyperCommand):
    """A command whose help shows its options under headings."""


class _Choosing(_Headed, _Group):
    """A command with subcommands and its own options; the help shows the subcommands first."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def _set_class(parser: Parser, name: str, parts: CommandSet) -> type[TyperGroup]:
    class Set(_Choosing if parts.alone is not None else _Group):  # type: ignore[misc]
        """A command with subcommands, each of which is built on first use."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(parts.commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in parts.commands:
                return super().get_command(ctx, cmd_name)
            return parser.part(f"{name} {cmd_name}", *parts.commands[cmd_name])

    return Set


def _root_class(parser: Parser) -> type[TyperGroup]:
    class Root(_Group):
        """``fmha``: commands come from the table, then from plugins (imported only for an unknown name)."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in COMMANDS:
                return parser.command(cmd_name)
            added = {} if ctx.resilient_parsing else plugin_commands()
            if cmd_name in added:
                return parser.of_plugin(cmd_name, added[cmd_name])
            return self._found(ctx, cmd_name, (*COMMANDS, *added))

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])
            formatter.write_paragraph()
            formatter.write_text(
                "`fmha help COMMAND` shows a command's help. Plugins may add commands; `fmha plugins` names them."
            )

    return Root


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fmha {__version__}")
        raise typer.Exit


def _options_given(options: tuple[Opt, ...], given: Mapping[str, Any]) -> dict[str, Value]:
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


def _reader(
    arguments: Iterable[Argument],
    options: Iterable[Opt],
    take: Callable[[typer.Context, Mapping[str, Any]], None],
) -> Callable[..., Any]:
    """What Typer calls in place of a function: a dataclass whose fields are the arguments and options of a command. A new
    instance hands over what was given; the rest is None."""
    fields = [("ctx", typer.Context), *map(_positional, arguments), *(one for o in options for one in _fields(o))]
    hand_over = {"__post_init__": lambda given: take(given.ctx, vars(given))}
    return make_dataclass("Given", fields, kw_only=True, repr=False, eq=False, namespace=hand_over)


def _fields(option: Opt) -> Iterator[tuple[str, Any, Any]]:
    """The field of an option, and the hidden one that takes a switch back."""
    kind: Any = bool if option.is_switch else tuple[str, str] if option.pair else list[str] if option.repeats else str
    yield _named(option), Annotated[kind | None, _info(option)], None
    if option.is_switch and not option.lasting:
        yield _undone(option), Annotated[bool | None, typer.Option(f"--{option.negation}", hidden=True)], None


def _info(option: Opt) -> Any:
    """An option as Typer describes it."""
    names = [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]
    about: dict[str, Any] = {"help": option.help, "rich_help_panel": option.panel, "show_default": False}
    if not option.is_switch:
        about["metavar"] = option.placeholder
        about["autocompletion"] = _completion(option.complete, option.choices, option.sweeps or option.lists)
    return typer.Option(*names, **about)


def _positional(argument: Argument) -> tuple[Any, ...]:
    metavar = argument.name.upper() + ("..." if argument.many else "")
    info = typer.Argument(help=argument.help, metavar=metavar, autocompletion=_completion(argument.complete, (), False))
    kind: Any = list[str] if argument.many else str
    if argument.required:
        return argument.name, Annotated[kind, info]
    return argument.name, Annotated[kind | None, info], None


def _completion(
    values: str | tuple[str, ...] | None, choices: tuple[str, ...], lists: bool
) -> Callable[[str], list[str]] | None:
    """What completes a value, None where nothing does."""
    if not values and not choices:
        return None

    def complete(incomplete: str) -> list[str]:
        from fmha_cli.cli.completion import completer  # 15 ms, which only the shell asks for

        found = completer(values, choices, lists)
        return [] if found is None else found(incomplete)

    return complete
