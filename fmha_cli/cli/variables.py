"""``FMHA_*`` variables that no option has: most are typing mistakes, which would otherwise be ignored in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.domain.suggest import NameKind, near_names

PREFIX = "FMHA_"
_EMULATORS = "FMHA_EMU_"
"""Emulators have their own variables with this prefix."""


def strange_variables(environ: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    """The variables that are set and that nothing reads, each with what to do. A plugin may have its own variables,
    which begin with the plugin's name.

    Args:
        known: the names of all options, without dashes in front.
    """
    names = {f"{PREFIX}{name.replace('-', '_').upper()}" for name in known}
    names |= {name for builtin in BUILTINS.values() for name in builtin.variables}
    own = tuple(f"{PREFIX}{point.name.replace('-', '_').upper()}" for point in installed_entry_points())
    strange = (name for name, text in environ.items() if text and name.startswith(PREFIX) and name not in names)
    return {name: _help(name, names) for name in sorted(strange) if not name.startswith((_EMULATORS, *own))}


def _help(name: str, names: Iterable[str]) -> str:
    """Near names; the words after the prefix are compared, because the prefix would make all of them alike."""
    words = {known.removeprefix(PREFIX).lower().replace("_", "-"): known for known in sorted(names)}
    near = near_names(name.removeprefix(PREFIX).lower(), words, NameKind.OPTION)
    if near:
        return f"did you mean {' or '.join(words[word] for word in near)}?"
    return "the variable of an option is FMHA_ and its name in capitals"
