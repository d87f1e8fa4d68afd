"""The ROCm root for the system's clang."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.rocm.root import RocmParts, control_libraries, isa_versions, lay_out, place_root, root_key

LAYOUT = "e-p:64:64"


@pytest.fixture
def parts(tmp_path: Path) -> RocmParts:
    given = tmp_path / "given"
    (given / "include" / "hip").mkdir(parents=True)
    (given / "include" / "hip" / "hip_runtime.h").write_text("// hip")
    for name in ("ocml.bc", "ockl.bc", "other.bc"):
        (given / name).write_bytes(b"BC" + name.encode())
    return RocmParts(given / "include", given / "ocml.bc", given / "ockl.bc", "7.1.5", "a test")


def test_every_library_that_clang_asks_for(parts: RocmParts) -> None:
    names = {name for name, _ in control_libraries(LAYOUT)}
    switches = ("finite_only", "unsafe_math", "daz_opt", "correctly_rounded_sqrt", "wavefrontsize64")
    assert {f"oclc_{s}_{state}" for s in switches for state in ("on", "off")} <= names
    assert {f"oclc_abi_version_{v}" for v in (400, 500, 600)} <= names
    assert {f"oclc_isa_version_{a.removeprefix('gfx')}" for a in arch_names() if a.startswith("gfx")} <= names
    assert {"hip", "opencl"} <= names


def test_isa_versions_are_those_of_the_names() -> None:
    """LLVM: after gfx, the major version, one hexadecimal digit for minor and one for stepping."""
    for name, version in isa_versions().items():
        digits = name.removeprefix("gfx")
        major, minor, step = int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)
        assert version == major * 1000 + minor * 100 + step, name
        assert load_arch(name).fact("wavefront_size") == (64 if major == 9 else 32)


def test_what_a_root_holds(parts: RocmParts, tmp_path: Path) -> None:
    made = lay_out(parts, LAYOUT, tmp_path / "root")
    assert {path.name for path in made.values()} == {f"{name}.bc" for name, _ in control_libraries(LAYOUT)}
    assert all(LAYOUT in source.read_text() for source in made)
    assert (tmp_path / "root" / "include" / "hip" / "hip_runtime.h").is_file()
    assert "assert.h" in (tmp_path / "root" / "include" / "hip" / "hip_fp16.h").read_text()
    bitcode = {p.name for p in (tmp_path / "root" / "amdgcn" / "bitcode").iterdir()}
    assert bitcode == {"ocml.bc", "ockl.bc"}
    assert "HIP_VERSION_MAJOR=7" in (tmp_path / "root" / "share" / "hip" / "version").read_text()


def test_headers_that_the_parts_have_are_not_replaced(parts: RocmParts, tmp_path: Path) -> None:
    (parts.include / "hip" / "hip_fp16.h").write_text("// the real one")
    lay_out(parts, LAYOUT, tmp_path / "root")
    assert (tmp_path / "root" / "include" / "hip" / "hip_fp16.h").read_text() == "// the real one"


def test_the_key_follows_the_content(parts: RocmParts) -> None:
    keys = [
        root_key(parts, LAYOUT, "llvm 22"),
        root_key(parts, LAYOUT + "-A5", "llvm 22"),
        root_key(parts, LAYOUT, "llvm 23"),
    ]
    (parts.ocml.parent / "other.bc").write_bytes(b"not a part")
    assert root_key(parts, LAYOUT, "llvm 22") == keys[0]
    parts.ocml.write_bytes(b"BC2")
    keys.append(root_key(parts, LAYOUT, "llvm 22"))
    (parts.include / "hip" / "new.h").write_text("")
    keys.append(root_key(parts, LAYOUT, "llvm 22"))
    assert len(set(keys)) == len(keys)


def fresh(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "a.h").write_text(text)
    return folder


def test_places(tmp_path: Path) -> None:
    layout: CacheLayout = open_root(tmp_path / "cache")
    first = place_root(layout, "k" * 64, fresh(tmp_path / "one", "1"))
    assert first.parent == layout.toolchains
    inode = first.stat().st_ino
    assert place_root(layout, "k" * 64, fresh(tmp_path / "two", "1")).stat().st_ino == inode
    (first / "a.h").write_text("damaged")
    assert (place_root(layout, "k" * 64, fresh(tmp_path / "three", "1")) / "a.h").read_text() == "1"
    assert not list(layout.tmp.glob("*"))
