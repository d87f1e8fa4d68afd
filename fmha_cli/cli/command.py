"""``Opt``, ``Argument`` and ``CommandSpec``: what a command module declares; Typer is built from it in ``shell``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING

from fmha_cli.domain.flags import Flag, FlagKind

if TYPE_CHECKING:
    from fmha_cli.cli.call import CliCall


@dataclass(frozen=True)
class Opt(Flag):
    """One option of the command line. The environment variable is ``FMHA_`` and its name in capitals.

    Attributes:
        panel: the heading under which ``--help`` shows it.
        choices: the values it takes, where they are a closed set.
        complete: what the shell offers: values, or a name in ``completion``.
        pair: it takes two words (``--ab K1 K2``); its flag then ``repeats``.
        lists: it takes a comma list that is not a sweep.
        lasting: no option takes the switch back, because another one has that name.
        writes: it names a file that is written, which no other option or argument may read.
        flag_only: no variable and no file gives its value, because an option of another command has its name.
    """

    panel: str = "Options"
    choices: tuple[str, ...] = ()
    complete: str | tuple[str, ...] | None = None
    pair: bool = False
    lists: bool = False
    lasting: bool = False
    flag_only: bool = False
    writes: bool = False

    @classmethod
    def of(cls, flag: Flag, panel: str, complete: str | tuple[str, ...] | None = None) -> Opt:
        """The option of a flag that is declared elsewhere."""
        return cls(**{one.name: getattr(flag, one.name) for one in fields(Flag)}, panel=panel, complete=complete)

    @property
    def is_switch(self) -> bool:
        return self.kind is FlagKind.SWITCH

    @property
    def negation(self) -> str:
        """The hidden option that takes a switch back: ``--no-lse``, and ``--check`` for ``--no-check``."""
        return self.name.removeprefix("no-") if self.name.startswith("no-") else f"no-{self.name}"

    @property
    def placeholder(self) -> str:
        """The placeholder that ``--help`` shows for the value."""
        kinds = {FlagKind.SIZE: "N", FlagKind.NUMBER: "X", FlagKind.LIST: "N,N...", FlagKind.FILE: "FILE"}
        return self.metavar or ("|".join(self.choices) if self.choices else kinds.get(self.kind, "TEXT"))

    def says(self, help: str) -> Opt:
        """The same option with the help of one command."""
        return replace(self, help=help)


@dataclass(frozen=True)
class Argument:
    """One positional argument; ``many`` takes any number, ``blank`` an empty text."""

    name: str
    help: str
    required: bool = False
    many: bool = False
    complete: str | None = None
    blank: bool = False


@dataclass(frozen=True)
class CommandSpec:
    """A command: what it takes, and what does it.

    Attributes:
        run: ``module:function`` of ``cli``, which returns the exit code (None: 0). It is imported only when the command runs:
            with the kernels' arrays and the store that takes up to 250 ms.
        detail: further paragraphs of ``--help``, after the one line of the command table.
        documents: what it may print, if it works long before it does: ``--columns`` is checked against them first.
    """

    run: str
    options: tuple[Opt, ...] = ()
    arguments: tuple[Argument, ...] = ()
    detail: str = ""
    documents: tuple[str, ...] = ()

    @property
    def function(self) -> Callable[[CliCall], int | None]:
        """The function that does it."""
        module, _, name = self.run.partition(":")
        found: Callable[[CliCall], int | None] = getattr(import_module(f"fmha_cli.cli.{module}"), name)
        return found


@dataclass(frozen=True)
class CommandSet:
    """A command with subcommands (``fmha cache ls``): name -> (one line of help, command).

    ``alone`` names the subcommand that runs where none is given; it takes no arguments.
    """

    commands: Mapping[str, tuple[str, CommandSpec]] = field(default_factory=dict)
    alone: str | None = None
