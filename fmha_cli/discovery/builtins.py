"""The table of the built-in backends, loaded by import path as the backends themselves are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module

from fmha_cli.domain.builtin import Builtin, Use
from fmha_cli.domain.flags import Flag, FlagKind

BUILTINS: Mapping[str, Builtin] = import_module("fmha_cli.backends.builtins").BUILTINS


def own_options(use: Use) -> tuple[Flag, ...]:
    """The options of single backends for one use."""
    return tuple(flag for builtin in BUILTINS.values() for flag, for_ in builtin.options if for_ is use)


def lonely_option(given: Collection[str]) -> tuple[Flag, Flag] | None:
    """An option about the user's tree of a backend (``ck-as``) that is given without the option that names the tree.

    Args:
        given: names of options.

    Returns:
        The lonely option and the missing one; None if there is none.
    """
    for builtin in BUILTINS.values():
        flags = [flag for flag, use in builtin.options if use is Use.SOURCES]
        home = next((flag for flag in flags if flag.kind is FlagKind.FILE), None)
        lonely = next((flag for flag in flags if flag.name in given), None)
        if home is not None and lonely is not None and home.name not in given:
            return lonely, home
    return None


def device_kinds() -> tuple[str, ...]:
    """How ``--help`` writes the ids of the backends' devices, sorted."""
    return tuple(sorted({builtin.device for builtin in BUILTINS.values() if builtin.device}))


def revision_option(backend: str) -> Flag | None:
    """The option that chooses the revision of a backend; None if it has none."""
    options = BUILTINS[backend].options if backend in BUILTINS else ()
    return next((flag for flag, use in options if use is Use.REVISION), None)


def revisions_in(text: Callable[[str], str | None]) -> dict[str, str]:
    """The revision that was chosen for each backend; ``text`` returns the value of an option, None if it was not given."""
    options = {name: revision_option(name) for name in BUILTINS}
    given = {name: text(option.key) for name, option in options.items() if option is not None}
    return {name: revision for name, revision in given.items() if revision is not None}


def compared() -> tuple[str, Builtin]:
    """The first backend whose upstream has programs, by its name, and its facts, without importing it."""
    return next((name, builtin) for name, builtin in BUILTINS.items() if builtin.binaries)


def export_forms() -> tuple[str, ...]:
    """The forms of ``fmha tune export`` that the built-in backends offer."""
    return tuple(form for builtin in BUILTINS.values() for form in builtin.exports)


def exporter_of(form: str) -> str:
    """The name of the backend that offers a form of ``fmha tune export``."""
    return next(name for name, builtin in BUILTINS.items() if form in builtin.exports)
