"""C++ files as translation units: a prefix that all of them share, and one or several ``.cpp`` joined with their other headers.

The build cache keys a compile by its source text, so an unchanged unit is never compiled again. A unit's text names the
prefix by its digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def amalgamate(name: str, files: Mapping[str, str], seen: set[str] | None = None) -> str:
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
        return f'{amalgamate(wanted, files, known)}\n#line {line} "{name}"'

    text = files[name]
    return f'#line 1 "{name}"\n' + _INCLUDE.sub(header, _ONCE.sub("\n", text))


@dataclass(frozen=True)
class Units:
    """The compiled source.

    Attributes:
        prefix: the text that comes before each unit's (``-include``).
        texts: the translation units by name (``listing`` for ``listing.cpp``), in alphabetical order.
    """

    prefix: str
    texts: Mapping[str, str]


def units_of(
    files: Mapping[str, str], shared: Sequence[str] = (), joined: Mapping[str, Sequence[str]] | None = None
) -> Units:
    """The units of some files, with a prefix of the headers ``shared``; without any, no unit depends on the others' headers.

    Args:
        files: texts by file name; each ``.cpp`` is a unit of its own unless a pattern of ``joined`` matches it.
        shared: headers that the prefix includes.
        joined: units of several files each, as patterns of names (``driver_*`` for ``driver_device.cpp``). Reading headers
            and instantiating the standard library takes most of a small file's compile; joined files share it. They
            share their unnamed namespaces too.

    Raises:
        KeyError: an ``#include "x"`` names no file.
    """
    seen: set[str] = set()
    lines = "".join(f'#include "{name}"\n' for name in shared)
    prefix = "#pragma once\n" + amalgamate("prefix.hpp", {**files, "prefix.hpp": lines}, seen)
    digest = "" if not shared else f"// prefix {hashlib.sha256(prefix.encode()).hexdigest()}\n"
    units: dict[str, list[str]] = {}
    for file in sorted(name for name in files if name.endswith(".cpp")):
        stem = file.removesuffix(".cpp")
        groups = (unit for unit, of in (joined or {}).items() if any(fnmatchcase(stem, pattern) for pattern in of))
        units.setdefault(next(groups, stem), []).append(file)
    texts = {}
    for name, members in sorted(units.items()):
        known = set(seen)
        texts[name] = digest + "".join(amalgamate(file, files, known) for file in members)
    return Units(prefix, texts)
