"""The LLVM program that belongs to a compiler: its disassembler, its readelf, its bundler."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

_NAMED = re.compile(r"-(\d+)$")
_NEWEST, _OLDEST = 40, 18


def llvm_tool(name: str, compiler: Path | None = None, search: str | None = None) -> Path | None:
    """The program ``name`` (``llvm-objdump``), None where there is none.

    Looked for beside the compiler, under its own name and with the compiler's version behind it; beside the file
    that the compiler's path leads to; where ROCm keeps LLVM; then on the search path, the newest
    first: a program without a version in its name is often a distribution's old default.

    Args:
        compiler: absolute path of the clang or hipcc that built the code.
        search: a search path instead of ``PATH``.
    """
    for path in _candidates(name, compiler):
        if os.access(path, os.X_OK) and path.is_file():
            return path
    for tried in (*(f"{name}-{version}" for version in range(_NEWEST, _OLDEST - 1, -1)), name):
        found = shutil.which(tried, path=search)
        if found:
            return Path(found)
    return None


def _candidates(name: str, compiler: Path | None) -> Iterator[Path]:
    if compiler is None:
        return
    version = _NAMED.search(compiler.name)
    names = (f"{name}{version[0]}", name) if version else (name,)
    for folder in dict.fromkeys((compiler.parent, Path(os.path.realpath(compiler)).parent)):
        yield from (folder / spelt for spelt in names)
        yield folder.parent / "llvm" / "bin" / name
