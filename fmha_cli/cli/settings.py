"""The value of every option and where it comes from: flag > variable > project's file > user's file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fmha_cli.cli.command import Opt
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.flags import parse_number, parse_size
from fmha_cli.domain.suggest import suggest

Text = str | bool | tuple[str, ...]
"""A value as given: text, a switch, or every text of an option that repeats."""

FLAG = "the command line"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Value:
    """A value and its source: ``FLAG``, the variable's name, or the file's path."""

    value: Text
    source: str


Layer = Mapping[str, Value]


@dataclass(frozen=True)
class OptionValues:
    """The effective values, by option key. An option that was not given has no entry."""

    values: Layer

    def text(self, key: str) -> str | None:
        """The text of an option, the last one of an option that repeats."""
        value = self.many(key)
        return value[-1] if value else None

    def many(self, key: str) -> tuple[str, ...]:
        """Every text of an option that repeats."""
        value = self.values[key].value if key in self.values else ()
        return value if isinstance(value, tuple) else (str(value),)

    def on(self, key: str) -> bool:
        """Whether a switch is on."""
        return key in self.values and self.values[key].value is True

    def size(self, key: str, default: int, least: int = 0) -> int:
        """An integer with suffix.

        Raises:
            UsageError: no integer, or below ``least``.
        """
        text = self.text(key)
        value = default if text is None else parse_size(text, self.where(key))
        if value < least:
            where = self.where(key)
            raise UsageError(
                f"{where} {text}: at least {least}", code="E002", where=where, help=f"e.g. {max(least, 1)}"
            )
        return value

    def number(self, key: str, default: float, *, zero: bool = False) -> float:
        """A positive number.

        Args:
            zero: 0 is allowed too.

        Raises:
            UsageError: not a positive number.
        """
        text = self.text(key)
        value = default if text is None else parse_number(text, self.where(key))
        if value < 0 or (value == 0 and not zero):
            where, help = self.where(key), "0 or more" if zero else "a number above 0"
            raise UsageError(f"{where} {text}: not positive", code="E002", where=where, help=help)
        return value

    def where(self, key: str) -> str:
        """``--seqlen``, and where its value comes from when that is not the command line."""
        flag = f"--{key.replace('_', '-')}"
        source = self.values[key].source if key in self.values else FLAG
        return flag if source == FLAG else f"{flag} (from {source})"

    def located(self, where: str | None, what: str) -> str | None:
        """The place of an error, with the source of every option it names that did not come from the command line."""
        key = where.removeprefix("--").replace("-", "_") if where and where.startswith("--") else ""
        places = [self.where(key) if key in self.values else where]
        for other, value in self.values.items():
            flag = f"--{other.replace('_', '-')}"
            if other != key and value.source != FLAG and re.search(rf"{flag}(?![\w-])", what):
                places.append(self.where(other))
        return "; ".join(filter(None, places)) or None


def check_choices(options: Iterable[Opt], settings: OptionValues) -> None:
    """Refuse a value outside an option's closed set.

    Raises:
        UsageError: E008, with near names.
    """
    for option in options:
        for text in settings.many(option.key) if option.choices else ():
            if text not in option.choices:
                what = f"--{option.name} {text}: no such choice"
                help = suggest(text, option.choices)
                raise UsageError(what, code="E008", where=settings.where(option.key), help=help)


def layer_of_variables(options: Iterable[Opt], environ: Mapping[str, str]) -> dict[str, Value]:
    """The values of ``FMHA_*`` variables. An empty variable counts as unset; several values are split at spaces.

    Raises:
        UsageError: E009, a switch that is neither on nor off.
    """
    out: dict[str, Value] = {}
    for option in options:
        name = variable_of(option)
        text = environ.get(name, "")
        if not text:
            continue
        if option.is_switch:
            out[option.key] = Value(switch_of(text, name), name)
        else:
            out[option.key] = Value(tuple(text.split()) if option.repeats else text, name)
    return out


def variable_of(option: Opt) -> str:
    """``FMHA_KV_HEADS`` for ``--kv-heads``."""
    return f"FMHA_{option.key.upper()}"


def switch_of(text: str, where: str) -> bool:
    """``1 true yes on`` or ``0 false no off``.

    Raises:
        UsageError: E009, neither.
    """
    if text.lower() not in (*_TRUE, *_FALSE):
        help = f"one of {', '.join(_TRUE)}, or {', '.join(_FALSE)}"
        raise UsageError(f"{where}={text}: neither on nor off", code="E009", where=where, help=help)
    return text.lower() in _TRUE
