"""Code objects from bundles and libraries, as clang's own bundler packs them; damaged input."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.toolchain.elf import MalformedObject
from fmha_cli.toolchain.rocm.metadata import decode
from fmha_cli.toolchain.rocm.offload import code_objects
from tests.support.builds.amdgpu_tiny import Tiny, compiled, program

_TARGETS = ("gfx942", "gfx90a")
ZSTD = struct.pack("<4sHHII8s", b"CCOB", 2, 1, 24 + 16, 8, bytes(8)) + bytes(16)
"""The header of a bundle packed with zstd, and no content."""
_FEATURES = {"gfx942": "gfx942:sramecc+:xnack-", "gfx90a": "gfx90a"}


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("codes")
    return {_FEATURES[arch]: compiled(Tiny(arch=arch, vgpr=9), folder)[0] for arch in _TARGETS}


def bundle(codes: dict[str, bytes], folder: Path, *more: str) -> bytes:
    """The bundle of these code objects with an empty host part, made with hipcc's options."""
    names, files = ["host-x86_64-unknown-linux-gnu-"], [folder / "host"]
    files[0].write_bytes(b"")
    for target, code in codes.items():
        names.append(f"hipv4-amdgcn-amd-amdhsa--{target}")
        files.append(folder / target.replace(":", "_"))
        files[-1].write_bytes(code)
    out = folder / "bundle"
    command = [
        program("clang-offload-bundler"),
        "--type=o",
        "--bundle-align=4096",
        f"--targets={','.join(names)}",
        *more,
    ]
    subprocess.run([*command, *(f"--input={f}" for f in files), f"--output={out}"], check=True)
    return out.read_bytes()


def found(data: bytes) -> dict[str, bytes]:
    return {item.target: item.data for item in code_objects(data)}


def test_a_code_object_by_itself(codes: dict[str, bytes]) -> None:
    code = codes["gfx90a"]
    assert [(item.target, item.arch, item.data) for item in code_objects(code)] == [("gfx90a", "gfx90a", code)]


def test_a_bundle(codes: dict[str, bytes], tmp_path: Path) -> None:
    data = bundle(codes, tmp_path)
    assert found(data) == codes
    assert [item.arch for item in code_objects(data)] == list(_TARGETS)
    twice = data + bytes(-len(data) % 4096) + data
    assert len(code_objects(twice)) == 4


def test_a_compressed_bundle(codes: dict[str, bytes], tmp_path: Path) -> None:
    data = bundle(codes, tmp_path, "--compress")
    if not data.startswith(b"CCOB"):
        pytest.skip("this bundler does not compress")
    assert found(data) == codes
    assert len(code_objects(data + bytes(64) + data)) == 4
    with pytest.raises(MalformedObject, match="method 9"):
        code_objects(data[:6] + b"\x09\0" + data[8:])
    with pytest.raises(MalformedObject, match=r"damaged|cut short"):
        code_objects(data[:40] + bytes(40) + data[80:])


def test_a_bundle_packed_with_zstd(codes: dict[str, bytes], tmp_path: Path) -> None:
    """The test packs the bundle itself, so it does not depend on the default of this machine's bundler."""
    plain = bundle(codes, tmp_path)
    body = zstandard.compress(plain)
    header = struct.pack("<4sHHII8s", b"CCOB", 2, 1, 24 + len(body), len(plain), bytes(8))
    assert found(header + body) == codes
    with pytest.raises(MalformedObject, match="damaged"):
        code_objects(header + bytes(len(body)))


def test_bundles_packed_with_zlib(codes: dict[str, bytes], tmp_path: Path) -> None:
    plain = bundle(codes, tmp_path)
    body = zlib.compress(plain)
    headers = {
        1: struct.pack("<4sHHI8s", b"CCOB", 1, 0, len(plain), bytes(8)),
        2: struct.pack("<4sHHII8s", b"CCOB", 2, 0, 24 + len(body), len(plain), bytes(8)),
        3: struct.pack("<4sHHQQ8s", b"CCOB", 3, 0, 32 + len(body), len(plain), bytes(8)),
    }
    for header in headers.values():
        assert found(header + body) == codes
    with pytest.raises(MalformedObject, match="version 9"):
        code_objects(struct.pack("<4sHHI8s", b"CCOB", 9, 0, 1, bytes(8)))
    with pytest.raises(MalformedObject, match="damaged"):
        code_objects(headers[3] + body[:-40] + bytes(40))


def test_a_library(codes: dict[str, bytes], tmp_path: Path) -> None:
    """The section of hipcc's wrapper in a shared library for this machine."""
    (tmp_path / "fat").write_bytes(bundle(codes, tmp_path))
    source = tmp_path / "host.c"
    source.write_text(f'__asm__(".section .hip_fatbin,\\"a\\"\\n.p2align 12\\n.incbin \\"{tmp_path}/fat\\"\\n");\n')
    library = tmp_path / "host.so"
    command = [program("clang"), "-shared", "-nostdlib", "-fuse-ld=lld", str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert found(library.read_bytes()) == codes


def test_damage(codes: dict[str, bytes], tmp_path: Path) -> None:
    data = bundle(codes, tmp_path)
    for end in (*range(0, 400, 13), 5000, len(data) - 1):
        with pytest.raises(MalformedObject):
            code_objects(data[:end])
    with pytest.raises(MalformedObject, match="no device code"):
        code_objects(Path(program("clang-offload-bundler")).read_bytes())


@pytest.mark.parametrize(
    ("absent", "read"),
    [("zstandard", lambda: code_objects(ZSTD)), ("msgpack", lambda: decode(b"\x80"))],
    ids=["zstandard", "msgpack"],
)
def test_without_what_reads_it_the_error_says_what_to_install(
    absent: str, read: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(EnvironmentProblem, match=f"{absent} is not installed") as caught:
        read()
    assert (caught.value.code, caught.value.help) == ("B012", "pip install 'fmha[rocm]'")
