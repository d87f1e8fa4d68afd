"""A library of several units: it is compiled once, and says how far it is."""

from __future__ import annotations

import ctypes
from pathlib import Path

from fmha_cli.domain.phases import Phase
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.key import BuildKind
from fmha_cli.toolchain.cpp.many import build_units, emulator_library
from fmha_cli.toolchain.cpp.units import Units

UNITS = Units("#include <cstddef>\n", {f"part_{i}.cpp": f"int part_{i}() {{ return {i}; }}\n" for i in range(3)})


def test_files_are_counted_while_they_compile_and_not_when_they_are_cached(tmp_path: Path) -> None:
    told: list[tuple[Phase, int, int]] = []
    said: list[str] = []
    context = BuildContext(
        cache_root=tmp_path,
        jobs=1,
        notify=said.append,
        phase=lambda phase, done, total: told.append((phase, done, total)),
    )
    library = emulator_library("tiny_emu", "libtiny.so", "generic", UNITS)
    assert library.kind is BuildKind.EMULATOR
    first = build_units(library, context)
    assert told == [(Phase.BUILD, 1, 2), (Phase.BUILD, 2, 2)]
    assert said == ["building the emulator (2 files, about a minute on two cores), once for this machine"]
    told.clear()
    assert build_units(library, context).sha256 == first.sha256
    assert (told, len(said)) == ([], 1)


def test_a_unit_has_a_level_of_its_own(tmp_path: Path) -> None:
    text = 'extern "C" [[gnu::visibility("default")]] int {0}() {{\n#ifdef __OPTIMIZE__\n  return 1;\n#else\n  return 0;\n#endif\n}}\n'
    units = Units("", {name: text.format(name) for name in ("full", "less")})
    library = emulator_library("tiny_emu", "libtiny.so", "generic", units, levels={"less": "-O0"})
    made = ctypes.CDLL(str(build_units(library, BuildContext(cache_root=tmp_path, jobs=1)).path))
    assert (made.full(), made.less()) == (1, 0)
