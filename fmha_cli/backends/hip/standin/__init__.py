"""A replacement for the HIP runtime: one text of the host API, and a sink that decides the effect of each launch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def hip_host_files() -> dict[str, str]:
    """Texts by file name: headers, and translation units each of which includes headers by these names."""
    folder = resources.files("fmha_cli.backends.hip.standin")
    return {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}


def one_text(sink: str, text: str) -> str:
    """A single translation unit of the whole host API and a sink.

    Args:
        sink: name of the sink's file, for messages. text: its C++.

    Raises:
        KeyError: an ``#include "x"`` that names none of the host's files.
    """
    files = {**hip_host_files(), sink: text}
    units = [*sorted(name for name in files if name.endswith(".cpp") and name != sink), sink]
    seen: set[str] = set()
    return "".join(_lay_out(name, files, seen) for name in units)


def _lay_out(name: str, files: Mapping[str, str], seen: set[str]) -> str:
    seen.add(name)
    text = files[name]

    def header(match: re.Match[str]) -> str:
        if match[1] in seen:
            return ""
        line = text.count("\n", 0, match.start()) + 2
        return f'{_lay_out(match[1], files, seen)}\n#line {line} "{name}"'

    return f'#line 1 "{name}"\n' + _INCLUDE.sub(header, _ONCE.sub("\n", text))
