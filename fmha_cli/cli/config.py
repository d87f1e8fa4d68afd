"""Configuration: ``fmha.toml`` of the project, searched upward, and the user's own; and ``FMHA_*`` variables that nothing reads.

A key is an option's name (``kv-heads = 2``); a table named after a command applies to that command alone and
takes precedence over the keys outside it (``[bench]`` / ``cache = "both"``). A list is a sweep or a repeated option.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fmha_cli.cli.command import Opt
from fmha_cli.cli.settings import Value
from fmha_cli.discovery.builtins import BUILTINS
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.suggest import NameKind, near_names, suggest

NAME = "fmha.toml"
PREFIX = "FMHA_"
_EMULATORS = "FMHA_EMU_"
"""Emulators have their own variables with this prefix."""


def current_folder() -> Path:
    """The current folder.

    Raises:
        EnvironmentProblem: X041, it was removed, or a folder above it cannot be read.
    """
    try:
        return Path.cwd()
    except OSError as fault:
        help = "cd into a folder that exists"
        what = "the current folder cannot be used"
        raise EnvironmentProblem(what, code="X041", where=".", why=fault.strerror, help=help) from fault


def project_file(start: Path) -> Path | None:
    """The nearest ``fmha.toml`` in ``start`` or above it. One in a folder that this user may not look into does not count."""
    return next((folder / NAME for folder in (start, *start.parents) if os.path.isfile(folder / NAME)), None)


def user_file() -> Path | None:
    """The user's ``fmha.toml`` in the platform's configuration folder."""
    from platformdirs import user_config_path

    try:
        path = user_config_path("fmha", appauthor=False) / NAME
    except RuntimeError:  # the user has no home, and so no file there
        return None
    return path if os.path.isfile(path) else None


def config_files(start: Path) -> tuple[Path, ...]:
    """The files in use, strongest first. A file that is both the project's and the user's counts once."""
    return tuple(dict.fromkeys(path for path in (project_file(start), user_file()) if path is not None))


def layers_of_file(
    path: Path, command: str, options: Iterable[Opt], known: Mapping[str, Iterable[str]]
) -> list[dict[str, Value]]:
    """The command's own table, then the keys outside any table, as layers for ``settings.merge``.

    Args:
        known: every command and the names of its options, to distinguish a mistake from an option of another command.

    Raises:
        UsageError: C001 unreadable, C002 unknown key (with near keys), C003 a value of the wrong kind.
    """
    data = _read(path)
    # outside of tables, a command's name stands for its table, also where an option has that name (--run of compare)
    everywhere = {name for names in known.values() for name in names} - known.keys()
    general = {key: value for key, value in data.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in data.items() if isinstance(value, dict)}
    _refuse_unknown(path, general, everywhere, "")
    _refuse_unknown(path, tables, known, "table ")
    for name, table in tables.items():
        _refuse_unknown(path, table, set(known[name]), f"[{name}] ")
    by_name = {option.name: option for option in options}
    return [
        {by_name[k].key: _value(v, by_name[k], path) for k, v in part.items() if k in by_name}
        for part in (tables.get(command, {}), general)
    ]


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as fault:
        why = "its values are nested too deeply" if isinstance(fault, RecursionError) else str(fault)
        raise UsageError(f"{path}: cannot be read", code="C001", where=str(path), why=why) from fault


def _refuse_unknown(path: Path, keys: Iterable[str], known: Iterable[str], what: str) -> None:
    names = sorted(known)
    for key in keys:
        if key not in names:
            raise UsageError(
                f"{path}: unknown key {what}{key!r}",
                code="C002",
                where=str(path),
                help=suggest(
                    key, names, NameKind.OPTION, otherwise="`fmha COMMAND --help` lists the options, which are the keys"
                ),
            )


def _value(value: Any, option: Opt, path: Path) -> Value:
    """A TOML value as the text that a command line would hold."""
    if option.is_switch and isinstance(value, bool):
        return Value(value, str(path))
    if option.is_switch or isinstance(value, bool):
        kind = "true or false" if option.is_switch else f"{option.kind.value}, not true or false"
        raise _wrong_kind(path, option, value, kind)
    if isinstance(value, list) and value and all(_is_plain(v) for v in value):
        texts = tuple(str(v) for v in value)
        return Value(texts if option.repeats else ",".join(texts), str(path))
    if not _is_plain(value):
        raise _wrong_kind(path, option, value, option.kind.value)
    return Value((str(value),) if option.repeats else str(value), str(path))


def _is_plain(value: Any) -> bool:
    """Whether a value could stand on a command line, which holds no null character."""
    return (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and "\0" not in value
    )


def _wrong_kind(path: Path, option: Opt, value: Any, kind: str) -> UsageError:
    import reprlib  # it shortens values, which may be nested so deeply that repr() fails

    what = f"{path}: {option.name} = {reprlib.repr(value)}"
    return UsageError(what, code="C003", where=str(path), why=f"it takes {kind}")


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
    return {name: _near(name, names) for name in sorted(strange) if not name.startswith((_EMULATORS, *own))}


def _near(name: str, names: Iterable[str]) -> str:
    """Near names; the words after the prefix are compared, because the prefix would make all of them alike."""
    words = {known.removeprefix(PREFIX).lower().replace("_", "-"): known for known in sorted(names)}
    near = near_names(name.removeprefix(PREFIX).lower(), words, NameKind.OPTION)
    if near:
        return f"did you mean {' or '.join(words[word] for word in near)}?"
    return "the variable of an option is FMHA_ and its name in capitals"
