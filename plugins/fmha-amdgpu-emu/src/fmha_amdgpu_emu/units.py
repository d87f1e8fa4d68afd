"""The emulator's C++ as translation units: each ``.cpp`` with the headers beside it laid into one text.

The build cache keys a compile by its source text, so a unit that does not change is never compiled again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from fmha_amdgpu_emu.device_facts import device_table
from fmha_cli.api import hip_host_files

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def amalgamated(name: str, files: Mapping[str, str], seen: set[str] | None = None) -> str:
    """One text of a file and of all local headers that it includes, each header once.

    Args:
        name: which of ``files``. files: texts by name. seen: headers that are in the text already.

    Raises:
        KeyError: an ``#include "x"`` that names no file.
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
    """The texts of ``core/*.hpp`` and ``core/*.cpp`` by file name, with those of the HIP host API and the devices."""
    folder: Traversable = resources.files("fmha_amdgpu_emu") / "core"
    own = {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
    return {**hip_host_files(), **own, "emulated_devices.cpp": device_table()}


def core_units() -> dict[str, str]:
    """The translation units by name (``listing`` for ``listing.cpp``), in alphabetical order."""
    files = core_files()
    return {name.removesuffix(".cpp"): amalgamated(name, files) for name in sorted(files) if name.endswith(".cpp")}
