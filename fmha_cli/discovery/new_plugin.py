"""``fmha plugins new``: a backend to start from, which passes its conformance tests as it is.

The text is the example plugin's (``plugins/fmha-example``) with its names replaced, so users start from a plugin that
is installed, run and tested like any other.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from fmha_cli.domain.errors import EnvironmentProblem, InternalError, UsageError

_NAME = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_FILES = ("pyproject.toml", "src/fmha_example/__init__.py", "tests/test_conformance.py")
_LONGEST = 40
_RESERVED = ("all", "auto", "emu", "fmha")
"""Words that already mean something where the name of a backend stands."""


def template() -> dict[str, str]:
    """The example plugin's files by path.

    Raises:
        InternalError: the installation lacks them.
    """
    try:
        root: Traversable = resources.files("fmha_cli.example")
    except ModuleNotFoundError:  # a bare checkout
        root = Path(__file__).resolve().parents[2] / "plugins" / "fmha-example"
    try:
        return {name: root.joinpath(name).read_text("utf-8") for name in _FILES}
    except OSError as fault:
        raise InternalError("the example plugin is missing from the installation", where=str(root)) from fault


def plugin_files(name: str) -> Mapping[str, str]:
    """The files of a new plugin by path: the example's, with names for a backend ``name``."""
    ident = name.replace("-", "_")
    title = "".join(part.capitalize() for part in ident.split("_"))
    words = {
        "fmha-example": f"fmha-{name.replace('_', '-')}",
        "fmha_example": f"fmha_{ident}",
        '"example"': f'"{ident}"',
        "Example": title,
    }
    pattern = re.compile("|".join(map(re.escape, words)) + r"|^example(?= = )", re.MULTILINE)

    def filled(text: str) -> str:
        return pattern.sub(lambda match: words.get(match[0], ident), text)

    return {filled(path): filled(text) for path, text in template().items()}


def write_plugin(name: str, folder: Path, taken: Iterable[str]) -> Path:
    """Write a new plugin below ``folder`` and return its root, ``fmha-NAME``.

    Args:
        taken: the names of the backends that are installed.

    Raises:
        UsageError: E041, the name is not one, is taken, or the plugin's folder exists.
        EnvironmentProblem: X040, the files cannot be written.
    """
    where, rule = "NAME", "lower-case letters and digits, joined by - or _"
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST:
        raise UsageError(f"{name!r} cannot name a backend", code="E041", where=where, help=rule)
    if name.replace("-", "_") in {*taken, *_RESERVED}:
        raise UsageError(
            f"the name {name} is taken", code="E041", where=where, help="`fmha plugins` lists the backends"
        )
    root = folder / f"fmha-{name.replace('_', '-')}"
    if os.path.exists(root):
        raise UsageError(f"{root} exists already", code="E041", where=where, help="choose another name or --dir")
    try:
        for path, text in plugin_files(name).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, "utf-8")
    except OSError as fault:
        shutil.rmtree(root, ignore_errors=True)  # a part of a plugin would be in the way of the next try
        raise EnvironmentProblem(
            f"{root} cannot be written",
            code="X040",
            where=str(root),
            why=fault.strerror,
            help="--dir names another folder",
        ) from fault
    return root
