"""A recording stand-in for libamdhip64: real host code, such as kernel libraries and sessions, runs against it without a device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fmha_amdgpu_emu.units import core_files

from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cpp.library import build_standin_library
from fmha_cli.toolchain.rocm.installed import RUNTIME

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n", re.MULTILINE)


def hip_host_files() -> dict[str, str]:
    """Texts of the HIP host API by file name: headers, and translation units each of which includes headers by these names."""
    return {name: text for name, text in core_files().items() if name.startswith("hip_")}


def source() -> str:
    """The stand-in's C++ text: the HIP host API and the recorder behind it."""
    return one_text("recorder.cpp", Path(__file__).with_name("recorder.cpp").read_text("utf-8"))


def build_standin(context: BuildContext) -> Artifact:
    """The stand-in, from the cache or compiled now. Raises what ``build_standin_library`` raises."""
    return build_standin_library("recorder", RUNTIME, source(), context)


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
