"""Our reader of code objects agrees with the compiler's own report and with llvm-readelf; damaged input is refused."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from fmha_cli.toolchain.elf import Elf, MalformedObject
from fmha_cli.toolchain.rocm.metadata import KernelMetadata, decode, kernels, target_of
from tests.support.builds.amdgpu_tiny import ARCHS, Tiny, compiled, program

VARIANTS = (
    Tiny(),
    Tiny(block=1024, lds=4096, vgpr=70),
    Tiny(block=64, vgpr=127, sgpr=60, stack=400),
    Tiny(arch="gfx90a", vgpr=40, agpr=30),
    Tiny(arch="gfx942", block=512, vgpr=33, agpr=100, lds=65536),
    *(Tiny(arch=arch, lds=1028, vgpr=50, block=128) for arch in ARCHS),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Tiny, bytes, dict[str, str]]]:
    return [(tiny, *compiled(tiny, tmp_path_factory.mktemp("tiny"))) for tiny in VARIANTS]


def test_it_says_what_the_compiler_says(built: list[tuple[Tiny, bytes, dict[str, str]]]) -> None:
    for tiny, code, said in built:
        (kernel,) = kernels(code)
        assert kernel.name == "tiny"
        assert kernel.block == tiny.block
        assert kernel.lds_bytes == int(said["LDS Size"]) == (tiny.lds // 4 * 4)
        assert kernel.scratch_bytes == int(said["ScratchSize"])
        assert (kernel.scratch_bytes > 0) == (tiny.stack > 0)
        assert kernel.vgpr_spills == int(said["VGPRs Spill"])
        assert kernel.sgpr_spills == int(said["SGPRs Spill"])
        assert kernel.sgprs == int(said["TotalSGPRs"])
        agprs = int(said.get("AGPRs", 0))
        assert kernel.agprs == agprs == (0 if tiny.agpr is None else tiny.agpr + 1)
        own = int(said["VGPRs"])
        assert kernel.vgprs == (own if not agprs else (own + 3) // 4 * 4 + agprs), "AGPRs follow at a multiple of 4"
        assert not agprs or kernel.descriptor.accum_offset == (own + 3) // 4 * 4
        assert kernel.wave == (32 if tiny.arch.startswith("gfx1") else 64)
        assert target_of(code) == tiny.arch


def test_llvm_readelf_agrees(built: list[tuple[Tiny, bytes, dict[str, str]]], tmp_path: Path) -> None:
    for _, code, _ in built:
        assert [shown(kernel) for kernel in kernels(code)] == notes(code, tmp_path)


def shown(kernel: KernelMetadata) -> dict[str, str]:
    """A kernel with the member names of the metadata."""
    return {
        ".agpr_count": str(kernel.agprs),
        ".group_segment_fixed_size": str(kernel.lds_bytes),
        ".kernarg_segment_size": str(kernel.kernarg_bytes),
        ".max_flat_workgroup_size": str(kernel.block),
        ".name": kernel.name,
        ".private_segment_fixed_size": str(kernel.scratch_bytes),
        ".sgpr_count": str(kernel.sgprs),
        ".sgpr_spill_count": str(kernel.sgpr_spills),
        ".vgpr_count": str(kernel.vgprs),
        ".vgpr_spill_count": str(kernel.vgpr_spills),
        ".wavefront_size": str(kernel.wave),
    }


def notes(code: bytes, folder: Path) -> list[dict[str, str]]:
    """The same members from ``llvm-readelf --notes``; RDNA has no ``.agpr_count``."""
    path = folder / "code.co"
    path.write_bytes(code)
    text = subprocess.run([program("llvm-readelf"), "--notes", str(path)], capture_output=True, text=True).stdout
    found: list[dict[str, str]] = []
    for line in re.split(r"\n(?=\w)", text.split("amdhsa.kernels:")[1])[0].splitlines():
        member = re.match(r"^(  - |    )(\.\w+): +(\S+)$", line)
        if line.startswith("  - "):
            found.append({".agpr_count": "0"})
        if member:
            found[-1][member[2]] = member[3]
    wanted = shown(kernels(code)[0])
    return [{key: row[key] for key in wanted} for row in found]


def test_damage_is_a_malformed_object(built: list[tuple[Tiny, bytes, dict[str, str]]]) -> None:
    """Whatever is cut off or changed, the reader raises MalformedObject or returns figures; no other error escapes."""
    code = built[0][1]
    for end in range(0, len(code), 97):
        try:
            assert kernels(code[:end])
        except MalformedObject:
            continue
    draw = random.Random(4)
    for _ in range(400):
        spoilt = bytearray(code)
        for _ in range(draw.choice((1, 4, 32))):
            spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
        try:
            kernels(bytes(spoilt))
        except MalformedObject:
            continue


def test_metadata_that_contradicts_the_descriptor(built: list[tuple[Tiny, bytes, dict[str, str]]]) -> None:
    tiny, code, _ = built[1]
    descriptors = next(section.data for section in Elf(code).sections if section.name == ".rodata")
    at = code.index(descriptors)
    assert struct.unpack_from("<I", code, at) == (tiny.lds,)
    with pytest.raises(MalformedObject, match="contradict"):
        kernels(code[:at] + struct.pack("<I", tiny.lds + 4) + code[at + 4 :])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("07", 7),
        ("ff", -1),
        ("ccff", 255),
        ("cd0100", 256),
        ("ce00010000", 65536),
        ("cf0000000100000000", 1 << 32),
        ("d080", -128),
        ("d1ff00", -256),
        ("d2ffffff00", -256),
        ("d3ffffffffffffff00", -256),
        ("ca3f800000", 1.0),
        ("cb3ff0000000000000", 1.0),
        ("a3616263", "abc"),
        ("d903616263", "abc"),
        ("da0003616263", "abc"),
        ("db00000003616263", "abc"),
        ("920102", [1, 2]),
        ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]),
        ("82a16101a16202", {"a": 1, "b": 2}),
        ("de0001a16190", {"a": []}),
        ("df00000001a16180", {"a": {}}),
    ],
)
def test_msgpack(text: str, value: object) -> None:
    data = bytes.fromhex(text)
    assert decode(data) == value
    for end in range(len(data)):
        with pytest.raises(MalformedObject):
            decode(data[:end])


@pytest.mark.parametrize("text", ["c1", "c403616263", "d40101", "819001", "91" * 10_000 + "01"])
def test_msgpack_that_metadata_does_not_use(text: str) -> None:
    with pytest.raises(MalformedObject):
        decode(bytes.fromhex(text))


def test_no_elf() -> None:
    with pytest.raises(MalformedObject):
        kernels(b"MZ" + bytes(100))
