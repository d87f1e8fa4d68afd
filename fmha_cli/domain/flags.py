"""``Flag``: one option of any command, and how its text is read. ``domain.fields`` has the flags of problems."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeVar

from fmha_cli.domain.errors import ImpossibleProblem
from fmha_cli.domain.suggest import NameKind, suggest

E = TypeVar("E", bound=StrEnum)


class FlagKind(Enum):
    """How to read a flag's text."""

    SIZE = "integer, suffixes k and m"
    NUMBER = "number"
    TEXT = "text"
    LIST = "comma list of integers"
    FILE = "file"
    SWITCH = "switch"


@dataclass(frozen=True)
class Flag:
    """One flag: ``name`` without dashes, ``kind``, help, whether a comma list in it is a sweep, and the unit that it
    counts.
    """

    name: str
    kind: FlagKind
    help: str
    short: str | None = None
    sweeps: bool = False
    repeats: bool = False
    metavar: str | None = None
    unit: str = ""

    @property
    def key(self) -> str:
        """The flag as a Python name."""
        return self.name.replace("-", "_")


FILLED = "filled"
"""The word in the place of a tensor's file that asks for a tensor made from the fill seed."""

DIGITS = 40
"""The most digits of an integer in a text. Far longer ones (more than 4300) Python itself refuses to read."""

_SIZE = re.compile(rf"([+-]?\d{{1,{DIGITS}}})([kKmM]?)\Z")


def parse_size(text: str, where: str, sweeps: bool = False) -> int:
    """Parses ``4096``, ``4k`` or ``1m`` (powers of 1024) into an integer; ``sweeps``: the flag takes lists and ranges too.

    Raises:
        ImpossibleProblem: the text is not an integer.
    """
    match = _SIZE.match(text.strip())
    if match is None:
        long = len(text) > DIGITS
        what = f"{text[:DIGITS]}...: not an integer of at most {DIGITS} digits" if long else f"{text}: not an integer"
        raise ImpossibleProblem(
            f"{where} {what}",
            code="P003",
            where=where,
            help="e.g. 1024, 1k or 2m" + ("; sweeps: 512,1k or a:b:+n" if sweeps else ""),
        )
    return int(match[1]) * {"": 1, "k": 1024, "m": 1024 * 1024}[match[2].lower()]


def parse_number(text: str, where: str) -> float:
    """A finite number.

    Raises:
        ImpossibleProblem: the text is not a finite number.
    """
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if value != value or value in (float("inf"), float("-inf")):
        raise ImpossibleProblem(
            f"{where} {text}: not a finite number", code="P003", where=where, help="e.g. 0.5, 30 or 1e-3"
        )
    return value


def parse_list(text: str, where: str) -> tuple[int, ...]:
    """Parses a comma-separated list of sizes into a tuple.

    Raises:
        ImpossibleProblem: an element is not an integer, or the list is empty.
    """
    return tuple(parse_size(part, where) for part in text.split(","))


def parse_choice(kind: type[E], text: str, name: str) -> E:
    """The member of a closed set that a flag names.

    Raises:
        ImpossibleProblem: P014, no such member.
    """
    if text in kind._value2member_map_:
        return kind(text)
    spoken = NameKind(name) if name in NameKind._value2member_map_ else None
    near = suggest(text, kind, spoken, otherwise=f"--{name} {next(iter(kind)).value}")
    why = f"one of {', '.join(m.value for m in kind)}"
    raise ImpossibleProblem(f"--{name} {text}", code="P014", where=f"--{name}", why=why, help=near)
