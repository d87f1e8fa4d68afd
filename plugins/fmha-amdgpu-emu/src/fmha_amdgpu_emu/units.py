"""The emulator's C++ as translation units: each ``.cpp`` and its local headers joined to one text.

The build cache keys a compile by its source text, so an unchanged unit is never compiled again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from fmha_amdgpu_emu.device_facts import arch_facts
from fmha_cli.api import hip_host_files

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def amalgamated(name: str, files: Mapping[str, str], seen: set[str] | None = None) -> str:
    """One text of a file and of all local headers that it includes, each header once.

    Args:
        name: the file, a key of ``files``.
        files: texts by file name.
        seen: headers that the text already has.

    Raises:
        KeyError: an ``#include "x"`` names no file.
    """
    known = set() if seen is None else seen
    known.add(name)

    def header(match: re.Match[str]) -> str:
        wanted = match[1]
        line = text.count("\n", 0, match.start()) + 2
        if wanted in known:
            return ""
        return f'{amalgamated(wanted, files, known)}\n#line {line} "{name}"'

    text = files[name]
    return f'#line 1 "{name}"\n' + _INCLUDE.sub(header, _ONCE.sub("\n", text))


def core_files() -> dict[str, str]:
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with the HIP host API and the facts of the architectures."""
    folder: Traversable = resources.files("fmha_amdgpu_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**hip_host_files(), **own, "arch_facts.hpp": arch_facts()}


def core_units() -> dict[str, str]:
    """The translation units by name (``listing`` for ``listing.cpp``), in alphabetical order."""
    files = core_files()
    return {name.removesuffix(".cpp"): amalgamated(name, files) for name in sorted(files) if name.endswith(".cpp")}
