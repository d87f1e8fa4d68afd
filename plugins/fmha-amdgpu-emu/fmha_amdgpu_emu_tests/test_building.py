"""Building the emulator: units from files, objects from units through the cache, a library from objects."""

from __future__ import annotations

import ctypes
import fnmatch
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fmha_amdgpu_emu import building
from fmha_amdgpu_emu.units import JOINED, core_files, core_units

from fmha_cli.api import KernelFailure
from fmha_cli.plugin import BuildContext, Units, units_of
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.listing import EntryInfo, list_entries
from fmha_cli.toolchain.cpp import many
from fmha_cli.toolchain.cpp.units import amalgamate

TWO = {
    "shared.hpp": "#pragma once\nint twice(int);\n",
    "one.cpp": '#include "shared.hpp"\nextern "C" __attribute__((visibility("default"))) int answer() { return twice(21); }\n',
    "other.cpp": '#include "shared.hpp"\nint twice(int x) { return 2 * x; }\n',
}


def test_a_header_is_laid_in_once_and_lines_keep_their_names() -> None:
    files = {
        "a.hpp": "#pragma once\nint a;\n",
        "b.hpp": '#pragma once\n#include "a.hpp"\nint b;\n',
        "x.cpp": '#include <vector>\n#include "a.hpp"\n#include "b.hpp"\nint x;\n',
    }
    text = amalgamate("x.cpp", files)
    assert text.count("int a;") == text.count("int b;") == text.count("int x;") == 1
    assert text.index("int a;") < text.index("int b;") < text.index("int x;")
    assert "#include <vector>" in text
    assert "pragma" not in text
    assert '#include "' not in text
    assert text.endswith('#line 4 "x.cpp"\nint x;\n')


def test_an_include_that_names_no_file() -> None:
    with pytest.raises(KeyError, match=r"nowhere\.hpp"):
        amalgamate("x.cpp", {"x.cpp": '#include "nowhere.hpp"\n'})


def test_joined_files_are_one_unit_with_each_header_once() -> None:
    files = {**TWO, "a_third.cpp": '#include "shared.hpp"\nint third;\n'}
    units = units_of(files, joined={"pair": ("a_*", "other")})
    assert list(units.texts) == ["one", "pair"]
    text = units.texts["pair"]
    assert text.count("int twice(int);") == 1
    assert text.index("int third;") < text.index("2 * x")
    assert '#line 1 "other.cpp"\n\nint twice(int x)' in text


def test_every_joined_file_is_there() -> None:
    stems = [name.removesuffix(".cpp") for name in core_files() if name.endswith(".cpp")]
    patterns = [pattern for unit in JOINED.values() for pattern in unit]
    assert [pattern for pattern in patterns if not fnmatch.filter(stems, pattern)] == []
    assert set(JOINED) <= set(core_units().texts)


def test_every_table_is_in_the_index() -> None:
    """Tables outside the index would be ignored."""
    files = core_files()
    defined = {
        name
        for text in files.values()
        for name in re.findall(r"^(?:extern )?const Table (k\w+Table)\s*[{=]", text, re.M)
    }
    assert len(defined) > 20
    assert defined == set(re.findall(r"&(k\w+Table)", files["tables.cpp"]))


def test_units_are_small_enough_to_read() -> None:
    sizes = {name: text.count("\n") for name, text in core_files().items()}
    assert {name: size for name, size in sizes.items() if size >= 500} == {}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Two small units instead of the emulator's, which the test may change."""
    files = dict(TWO)

    def units() -> Units:
        return units_of(files, ("shared.hpp",))

    monkeypatch.setattr(building, "core_units", units)
    return files


def test_from_an_empty_cache_and_again(two: dict[str, str], tmp_path: Path) -> None:
    """A first build compiles everything once. After an edit, only the changed unit is compiled, then linked."""
    context = BuildContext(cache_root=tmp_path / "cache", jobs=2)
    first = building.build_emulator(context)
    assert not first.cached
    assert ctypes.CDLL(str(first.path)).answer() == 42
    assert len(entries(tmp_path)) == 3
    again = building.build_emulator(context)
    assert again.cached
    assert (again.path, again.sha256) == (first.path, first.sha256)
    two["other.cpp"] = two["other.cpp"].replace("2 * x", "3 * x")
    edited = building.build_emulator(context)
    assert ctypes.CDLL(str(edited.path)).answer() == 63
    assert len(entries(tmp_path)) == 5


def test_the_library_is_the_runtimes_own_name(two: dict[str, str], tmp_path: Path) -> None:
    built = building.build_emulator(BuildContext(cache_root=tmp_path / "cache", jobs=1))
    assert building.SONAME.encode() + b"\0" in built.path.read_bytes()


def test_what_does_not_compile_or_link_is_said(two: dict[str, str], tmp_path: Path) -> None:
    context = BuildContext(cache_root=tmp_path / "cache", jobs=2)
    two["other.cpp"] = '#include "shared.hpp"\n'
    with pytest.raises(KernelFailure, match="twice"):
        building.build_emulator(context)
    two["other.cpp"] = '#include "shared.hpp"\nint twice(int x) { return y; }\n'
    with pytest.raises(KernelFailure, match=r"other\.cpp:2:.*y"):
        building.build_emulator(context)


def test_the_emulators_own_units_are_whole() -> None:
    """A unit includes only the compiler's own headers, so its object depends on its text alone."""
    units = core_units()
    for name, text in {**units.texts, "prefix": units.prefix}.items():
        assert not re.search(r'^\s*#\s*include\s*"', text, re.M), name


def test_a_changed_prefix_changes_every_unit(two: dict[str, str], tmp_path: Path) -> None:
    context = BuildContext(cache_root=tmp_path / "cache", jobs=2)
    building.build_emulator(context)
    two["shared.hpp"] = "#pragma once\nint twice(int);\ninline int more = 1;\n"
    two["other.cpp"] = two["other.cpp"].replace("2 * x", "2 * x + more")
    edited = building.build_emulator(context)
    assert ctypes.CDLL(str(edited.path)).answer() == 43
    assert len(entries(tmp_path)) == 6


@pytest.mark.parametrize("works", [True, False])
def test_objects_do_not_depend_on_the_compiled_prefix(
    two: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """A prefix is compiled where it pays. The library is the same without it, and where a compiler cannot do it."""
    plain = building.build_emulator(BuildContext(cache_root=tmp_path / "plain", jobs=1))
    done: list[int] = []
    run = subprocess.run

    def asked(command: list[str], **options: Any) -> Any:
        kind = ["-x", "c++-header"] if works else ["-x", "no-such-language"]
        place = command.index("-x")
        ended = run([*command[:place], *kind, *command[place + 2 :]], **options)
        done.append(ended.returncode)
        return ended

    monkeypatch.setattr(many, "_WORTH_IT", 0)
    monkeypatch.setattr(many.subprocess, "run", asked)
    fast = building.build_emulator(BuildContext(cache_root=tmp_path / "cache", jobs=1))
    assert [code == 0 for code in done] == [works]
    assert fast.sha256 == plain.sha256


def test_each_part_is_an_entry_of_its_kind(two: dict[str, str], tmp_path: Path) -> None:
    building.build_emulator(BuildContext(cache_root=tmp_path / "cache", jobs=1))
    assert [(info.kind, info.name) for info in entries(tmp_path)] == [
        ("emulator", f"amdgpu_emu:{part}") for part in ("library", "one", "other")
    ]


def entries(root: Path) -> tuple[EntryInfo, ...]:
    return list_entries(CacheLayout(root / "cache"))
