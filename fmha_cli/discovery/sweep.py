"""Sweeps: comma lists and ranges in flags -> the cross product of problems.

``512,1k`` is a list; ``a:b:+n`` and ``a:b:*n`` are ranges in which both ends are values (``512:3000:*2``
is 512, 1024, 2048, 3000); lists may hold ranges. Only the flags marked ``sweeps`` are read this way; a flag
marked ``repeats`` sweeps by being given again.

Order of the points: the flags in the order of ``FIELDS``, the first one varying slowest, each
through its values as given. Defaults of the form "= heads" apply to each point, because every point is
resolved separately. Equal points are kept: a point that is requested twice runs twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from math import prod

from fmha_cli.domain.errors import EmptySelection, ImpossibleProblem, UsageError
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.flags import Flag, FlagKind, parse_number, parse_size
from fmha_cli.domain.problem import Problem

LIMIT = 100_000
"""The most points of one sweep; more are assumed to be a mistake."""

Given = Mapping[str, str | bool | int | float | Sequence[str]]
"""Flag key -> the given value: text, a switch, a plain number, or every text of a repeated flag."""

Raw = dict[str, str | bool | int | float]
"""The flags of one point."""

Complete = Callable[[Raw], Mapping[str, str | bool | int | float]]

_RANGE = re.compile(r"([-+.\d][^:]*):([-+.\d][^:]*):([+*])([-+.\d][^:]*)\Z")


@dataclass(frozen=True)
class Axis:
    """One flag and the values that it takes."""

    flag: Flag
    values: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    """The axes with more than one value, and the flags that stay fixed."""

    fixed: Mapping[str, str | bool | int | float]
    axes: tuple[Axis, ...]

    @property
    def count(self) -> int:
        return prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[Raw]:
        """The raw flags of every point, in the documented order."""
        for values in product(*(axis.values for axis in self.axes)):
            chosen = {axis.flag.key: value for axis, value in zip(self.axes, values, strict=True)}
            yield {**self.fixed, **chosen}

    def point_text(self, raw: Mapping[str, object]) -> str:
        """``--heads 9, --seqlen 512``: the values that distinguish a point."""
        return ", ".join(f"--{axis.flag.name} {raw[axis.flag.key]}" for axis in self.axes)

    def text(self) -> str:
        """``12 problems (seqlen x3, dtype x4)``, for the announcement."""
        axes = ", ".join(f"{axis.flag.name} x{len(axis.values)}" for axis in self.axes)
        return f"{self.count} problems ({axes})" if axes else "1 problem"


@dataclass(frozen=True)
class Dropped:
    """A point left out by ``--skip-impossible``, and why."""

    text: str
    error: ImpossibleProblem


def expand(given: Given) -> Sweep:
    """The sweep of the given flags.

    Raises:
        UsageError: S001, a malformed range; S002, more than ``LIMIT`` points.
        ImpossibleProblem: P003, a bound that is not a number.
    """
    fixed: dict[str, str | bool | int | float] = {}
    axes: list[Axis] = []
    for key in (*(key for key in BY_KEY if key in given), *(key for key in given if key not in BY_KEY)):
        value, flag = given[key], BY_KEY.get(key)
        texts = [value] if isinstance(value, str | bool | int | float) else list(value)
        if flag is not None and flag.sweeps:
            texts = [v for text in texts for v in (_values(text, flag) if isinstance(text, str) else (text,))]
        if len(texts) == 1:
            fixed[key] = texts[0]
        elif flag is not None and texts:
            axes.append(Axis(flag, tuple(str(text) for text in texts)))
    sweep = Sweep(fixed, tuple(axes))
    if sweep.count > LIMIT:
        unread = any(len(axis.values) > LIMIT for axis in axes)  # the rest of such an axis
        what = f"the sweep has {'at least ' if unread else ''}{sweep.count:,} points"
        help = "split it, or take wider steps: a:b:*2"
        raise UsageError(what, code="S002", why=f"more than {LIMIT:,} points are assumed to be a mistake", help=help)
    return sweep


def resolve_point(
    sweep: Sweep, raw: Raw, *, skip_impossible: bool = False, complete: Complete | None = None
) -> Problem | Dropped:
    """The problem of one point of a sweep, or why it is dropped.

    Args:
        complete: adds flags to the point that follow from something else (the shapes of tensor files).

    Raises:
        ImpossibleProblem: the point is impossible, unless ``skip_impossible`` and the sweep has others.
    """
    try:
        return Problem.from_raw(complete(raw) if complete else raw)
    except ImpossibleProblem as error:
        if not (skip_impossible and sweep.axes):
            raise _at(error, raw, sweep) from error
        return Dropped(sweep.point_text(raw), error)


def nothing_left(dropped: Sequence[Dropped]) -> EmptySelection:
    """The error for points that were all dropped."""
    what = f"every one of the {len(dropped)} points is impossible"
    first = dropped[0].error
    return EmptySelection(what, code="S003", where=first.where, why=f"the first: {first.what}", help=first.help)


def _at(error: ImpossibleProblem, raw: Mapping[str, object], sweep: Sweep) -> ImpossibleProblem:
    """The error of one point of a sweep, with the point and the way around it."""
    if not sweep.axes:
        return error
    help = "; ".join(filter(None, (error.help, "--skip-impossible drops such points")))
    return ImpossibleProblem(
        error.what, code=error.code, where=f"the point {sweep.point_text(raw)}", why=error.why, help=help
    )


def _values(text: str, flag: Flag) -> list[str]:
    """Every value of a comma list whose elements may be ranges."""
    out: list[str] = []
    for part in text.split(","):
        if not part.strip():
            what, help = f"--{flag.name} {text}: an empty element", "values are separated by single commas: 512,1k"
            raise UsageError(what, code="S001", where=f"--{flag.name}", help=help)
        match = _RANGE.match(part.strip())
        if match is None:
            out.append(part.strip())
        else:
            out += islice(_range(match, f"--{flag.name}", flag.kind is FlagKind.NUMBER), LIMIT + 1)
    return out


def _range(match: re.Match[str], where: str, decimal: bool) -> Iterator[str]:
    """``a:b:+n`` and ``a:b:*n``, from a to b, both included."""
    first, last, step = (_number(match[i], where, decimal) for i in (1, 2, 4))
    grows = step > 0 if match[3] == "+" else step > 1 and first > 0
    if not grows or last < first:
        why = "a:b:+n needs a <= b and n > 0; a:b:*n needs 0 < a <= b and n > 1"
        help = "e.g. 512:4k:+512 or 512:4k:*2; other orders are lists: 4k,2k,1k"
        raise UsageError(f"{where} {match[0]}: not an increasing range", code="S001", where=where, why=why, help=help)
    value = first
    while value < last:
        yield _plain(value, decimal)
        value = value + step if match[3] == "+" else value * step
    yield _plain(last, decimal)


def _number(text: str, where: str, decimal: bool) -> Decimal:
    if not decimal:
        return Decimal(parse_size(text, where, sweeps=True))
    parse_number(text, where)
    return Decimal(text.strip())


def _plain(value: Decimal, decimal: bool) -> str:
    return format(value.normalize(), "f") if decimal else str(int(value))
