"""``commands.md``: every command with its arguments and options, from the declarations that the command line is built from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fmha_cli.cli.command import Argument, CommandSet, CommandSpec, Opt
from fmha_cli.cli.commands import COMMANDS, MAY_STAND_ALONE, TALK, declared
from fmha_cli.cli.options import EXCLUDES, PROBLEM
from fmha_cli.cli.settings import variable_of
from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.domain.flags import FlagKind
from fmha_cli.plugin import DeviceFacts, EmulatorOptions, variables_of

from .markdown import anchor, code, page, plain, section, table

_DEFAULT = re.compile(r"\s*\[default: (.*?)\]$")
_PROBLEM = {option.name for option in PROBLEM}


def pages() -> dict[str, str]:
    """The page of all commands."""
    parts = [section(name, *_of(name)) for name in COMMANDS]
    about = (
        "`fmha COMMAND --help` prints the same for one command. Every command also takes the options of "
        "[every command](#every-command). Each option has a variable and a key in `fmha.toml`: see "
        "[variables and files](#variables-and-files)."
    )
    summary = table(
        ("command", "does"), ((f"[`fmha {name}`](#{name})", plain(e.summary)) for name, e in COMMANDS.items())
    )
    everywhere = section("Every command", options_table(TALK))
    return {"commands.md": page("Commands and options", about, summary, everywhere, *parts, _variables())}


def _of(name: str) -> Iterator[str]:
    found, summary = declared(name), plain(COMMANDS[name].summary + ".")
    if isinstance(found, CommandSpec):
        yield from _described(name, summary, found)
        return
    yield f"{summary} Without a subcommand: `{found.alone}`." if found.alone else summary
    for part, (text, command) in found.commands.items():
        yield section(f"{name} {part}", *_described(f"{name} {part}", plain(text + "."), command), level=3)


def _described(name: str, summary: str, command: CommandSpec) -> Iterator[str]:
    yield f"```text\nfmha {name}{''.join(f' {_usage(a)}' for a in command.arguments)} [OPTIONS]\n```"
    yield summary
    yield from (plain(paragraph) for paragraph in command.detail.split("\n\n") if paragraph)
    if command.arguments:
        yield table(("argument", "meaning"), ((code(_usage(a)), plain(a.help)) for a in command.arguments))
    own = [option for option in command.options if option.name not in _PROBLEM]
    if len(own) < len(command.options):
        missing = [o.name for o in PROBLEM if o.name not in {option.name for option in command.options}]
        but = f" except {', '.join(code(f'--{name}') for name in missing)}" if missing else ""
        yield f"Takes the [problem flags](problem.md){but}, and:"
    yield options_table(own)


def _usage(argument: Argument) -> str:
    text = argument.name.upper() + ("..." if argument.many else "")
    return text if argument.required else f"[{text}]"


def options_table(options: Iterable[Opt]) -> str:
    """Options under the headings of ``--help``."""
    return table(
        ("option", "group", "type", "default", "meaning"),
        (
            (spelling(o), o.panel if o.panel != "Options" else "", kind_of(o), default_of(o.help), meaning_of(o.help))
            for o in options
        ),
    )


def spelling(option: Opt) -> str:
    """``-s, --seqlen N``."""
    value = "" if option.is_switch else f" {option.placeholder}"
    short = f"`-{option.short}`, " if option.short else ""
    return f"{short}`--{option.name}{value}`"


def kind_of(option: Opt) -> str:
    """The type of an option's value, and how often it may be given."""
    if option.choices:
        kind = "choice"
    elif option.kind is FlagKind.SIZE:
        kind = "integer"
    else:
        kind = option.kind.value
    return kind + (", twice" if option.pair else ", repeatable" if option.repeats else "")


def default_of(help: str) -> str:
    """What ``--help`` says the default is."""
    found = _DEFAULT.search(help)
    return plain(found[1]) if found else ""


def meaning_of(help: str) -> str:
    """The help without the default."""
    return plain(_DEFAULT.sub("", help))


def _variables() -> str:
    options = _all_options()
    rows = [
        (code(name), code(variable_of(option)) if not option.flag_only else "", "" if option.flag_only else code(name))
        for name, option in options.items()
    ]
    drops = (
        (code(f"--{_flag(key)}"), ", ".join(code(f"--{_flag(other)}") for other in others))
        for key, others in sorted(EXCLUDES.items())
    )
    others = [(code(name), f"backend {code(backend)}") for backend, one in BUILTINS.items() for name in one.variables]
    emulated = variables_of(DeviceFacts.of_arch(""), EmulatorOptions())
    others += [(code(name), "libraries of emulated devices; `fmha` sets it") for name in emulated]
    alone = "; ".join(f"`{flag}` alone means `{flag} {value}`" for flag, value in MAY_STAND_ALONE.items())
    return section(
        "Variables and files",
        "The command line overrides a variable, a variable overrides the project's `fmha.toml`, and that overrides the "
        "user's. A table named after a command (`[bench]`) applies to that command alone. An integer takes the suffixes k "
        f"and m (1k = 1024). `--no-NAME` takes a switch back. {alone}.",
        table(("option", "variable", "key"), rows),
        section("Variables that are no options", table(("variable", "read by"), others), level=3),
        section(
            "Options that replace others",
            "An option removes these from weaker sources. Two of them in one source are an error.",
            table(("option", "removes"), drops),
            level=3,
        ),
    )


def _all_options() -> dict[str, Opt]:
    """Every option by name, as the first command has it."""
    found: dict[str, Opt] = {}
    for name in COMMANDS:
        one = declared(name)
        for command in [c for _, c in one.commands.values()] if isinstance(one, CommandSet) else [one]:
            for option in command.options:
                found.setdefault(option.name, option)
    found.update({option.name: option for option in TALK})
    return dict(sorted(found.items()))


def _flag(key: str) -> str:
    return key.replace("_", "-")


def link(name: str) -> str:
    """A link from another page of the reference to a command."""
    return f"[`fmha {name}`](commands.md#{anchor(name)})"
