"""Reading cubins: agreement with the assembler's own report, and resistance to damage."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.toolchain.cuda.attributes import attributes
from fmha_cli.toolchain.cuda.cubin import Cubin
from fmha_cli.toolchain.cuda.sass import mnemonics_of, spills_of
from fmha_cli.toolchain.elf import Elf, MalformedObject
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.builds.nvrtc_tiny import ARCHS, cubin_of, said_of

GENERATIONS = ("sm_80", "sm_90a", "sm_100", "sm_120")
TEXT = """
struct Block { double a[5]; int b; };
extern "C" {
__attribute__((used)) __device__ const unsigned table[3] = {1, 2, 0xffffffff};
__constant__ unsigned constants[2] = {7, 8};
__device__ unsigned room[4];
__global__ void plain(const __grid_constant__ Block block, float* a, short last) { a[0] = block.b + last + constants[a[1] > 0]; room[1] = 1; }
__global__ void __launch_bounds__(96) still(float* a) { __shared__ float s[25]; s[threadIdx.x % 25] = a[threadIdx.x]; __syncthreads(); a[threadIdx.x] = s[(threadIdx.x + 3) % 25]; }
__global__ void busy(float* a, int n)
{
  float r[64];
#pragma unroll
  for (int i = 0; i < 64; i++) asm volatile("add.f32 %0, %1, 0f3f800000;" : "=f"(r[i]) : "f"(a[i * n + threadIdx.x]));
  for (int k = 0; k < n; k++)
#pragma unroll
    for (int i = 0; i < 64; i++) r[i] = r[i] * r[(i + 7) % 64] + a[k];
#pragma unroll
  for (int i = 0; i < 64; i++) a[i * n + threadIdx.x] = r[i];
}
__global__ void arrays(float* a, int n) { float l[64]; for (int i = 0; i < n; i++) l[a[i] > 0 ? i % 64 : 3] = a[i]; a[0] = l[n % 64]; }
}
"""
TIGHT = "-maxrregcount=32"


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("arch", GENERATIONS)
@pytest.mark.parametrize("options", [(), (TIGHT,)])
def test_the_assembler_says_the_same(arch: str, options: tuple[str, ...]) -> None:
    """Registers, barriers, stack and spills agree, for kernels with and without spills."""
    cubin, said = Cubin(cubin_of(TEXT, arch, *options)), said_of(TEXT, arch, *options)
    assert {kernel.name for kernel in cubin.kernels} == said.keys() == {"plain", "still", "busy", "arrays"}
    names = mnemonics_of(cubin.capability)
    for kernel in cubin.kernels:
        spills, theirs = spills_of(kernel, names), said[kernel.name]
        assert (kernel.registers, kernel.barriers) == (theirs.registers, theirs.barriers)
        assert kernel.frame_bytes == kernel.stack_bytes == theirs.frame
        assert (spills.store_bytes, spills.load_bytes, spills.noted) == (theirs.stores, theirs.loads, True)
    if options:
        assert said["busy"].stores > 0
        assert said["arrays"].frame > 0 == said["arrays"].stores


@pytest.mark.slow
@pytest.mark.ci
def test_what_the_text_asks_for() -> None:
    """Static shared memory and arguments are the same on all architectures, whatever the driver reserves."""
    for arch in ARCHS:
        kernels = {kernel.name: kernel for kernel in Cubin(cubin_of(TEXT, arch)).kernels}
        assert {name: kernel.shared_bytes for name, kernel in kernels.items()} == {
            "plain": 0, "still": 100, "busy": 0, "arrays": 0
        }  # fmt: skip
        assert [(p.offset, p.size) for p in kernels["plain"].parameters] == [(0, 48), (48, 8), (56, 2)]
        assert kernels["plain"].parameter_bytes == 58
        assert kernels["plain"].most_threads is None
        assert (kernels["still"].most_threads, kernels["still"].barriers) == (96, 1)
        assert all(kernel.most_registers == 255 for kernel in kernels.values())


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("arch", [*ARCHS, "sm_100f"])
def test_the_architecture_with_its_suffix(arch: str) -> None:
    cubin = Cubin(cubin_of(TEXT, arch))
    assert cubin.arch == arch
    assert cubin.tool_version is not None
    assert "release 13.0" in cubin.tool_version


def test_exported_data() -> None:
    for arch in GENERATIONS:
        raw = cubin_of(TEXT, arch)
        assert struct.unpack("<3I", Cubin(raw).data_of("table")) == (1, 2, 0xFFFFFFFF)
        assert struct.unpack("<2I", Cubin(raw).data_of("constants")) == (7, 8)
        with pytest.raises(MalformedObject, match="not in the file"):
            Cubin(raw).data_of("room")
        for name in ("tabl", "plain", ".text.plain"):
            with pytest.raises(MalformedObject, match="exports no"):
                Cubin(raw).data_of(name)


def test_sections_as_readelf_sees_them(tmp_path: Path) -> None:
    readelf = shutil.which("readelf") or shutil.which("llvm-readelf-22")
    if readelf is None:
        pytest.skip("no readelf is installed")
    for arch in GENERATIONS:
        path = tmp_path / "tiny.cubin"
        path.write_bytes(cubin_of(TEXT, arch))
        text = subprocess.run([readelf, "-SW", str(path)], capture_output=True, text=True, check=True).stdout
        rows = [line.split("]", 1)[1].split() for line in text.splitlines() if line.lstrip().startswith("[")]
        theirs = {row[0]: int(row[4], 16) for row in rows if len(row) > 5 and row[0].startswith(".")}
        ours = {section.name: section.size for section in Elf(path.read_bytes()).sections if section.name}
        assert ours == theirs


def old_abi(raw: bytes, flags: int) -> bytes:
    """A cubin with the header of ABI version 7."""
    return raw[:7] + bytes([51, 7]) + raw[9:48] + struct.pack("<I", flags) + raw[52:]


def test_the_older_abi() -> None:
    """LLVM, BinaryFormat/ELF.h: the architecture is in the low byte, EF_CUDA_ACCELERATORS_V1 above it."""
    raw = tiny_cubin("k", (8,), capability=90)
    assert Cubin(old_abi(raw, 0x5A055A)).arch == "sm_90"
    assert Cubin(old_abi(raw, 0x5A0D5A)).arch == "sm_90a"
    assert Cubin(old_abi(raw, 0x560556)).arch == "sm_86"


def test_the_synthetic_cubin_reads_like_a_real_one() -> None:
    raw = tiny_cubin("k", (16, 4), capability=120, accelerated=True, shared=256, data={"x": b"abcd", "y": b"\1"})
    cubin = Cubin(raw)
    (kernel,) = cubin.kernels
    assert (cubin.arch, kernel.name, kernel.registers, kernel.shared_bytes) == ("sm_120a", "k", 32, 256)
    assert [(p.offset, p.size) for p in kernel.parameters] == [(0, 16), (16, 4)]
    assert (cubin.data_of("x"), cubin.data_of("y")) == (b"abcd", b"\1")


def patched(raw: bytes, section: str, old: bytes, new: bytes) -> bytes:
    """A file in which some bytes of a section are replaced."""
    data = next(part.data for part in Elf(raw).sections if part.name == section)
    place = raw.index(data) + data.index(old)
    return raw[:place] + new + raw[place + len(old) :]


def test_contradictions() -> None:
    raw = cubin_of(TEXT, "sm_90a")
    with pytest.raises(MalformedObject, match="its note states sm_90a"):
        _ = Cubin(patched(raw, ".nv.compat", b"\x02\x09\x01\x00", b"\x02\x09\x00\x00")).arch
    with pytest.raises(MalformedObject, match="its note states sm_80a"):
        _ = Cubin(patched(raw, ".note.nv.tkinfo", b"-arch sm_90a", b"-arch sm_80a")).arch
    with pytest.raises(MalformedObject, match="ABI version 9"):
        Cubin(raw[:8] + b"\x09" + raw[9:])
    with pytest.raises(MalformedObject, match="another machine"):
        Cubin(raw[:18] + struct.pack("<H", 62) + raw[20:])
    synthetic = tiny_cubin("k", (8,))
    counted = struct.pack("<BBHII", 4, 0x2F, 8, 1, 32)
    with pytest.raises(MalformedObject, match="contradict"):
        _ = Cubin(patched(synthetic, ".nv.info", counted, struct.pack("<BBHII", 4, 0x2F, 8, 1, 33))).kernels
    with pytest.raises(MalformedObject, match="missing"):
        _ = Cubin(patched(synthetic, ".nv.info", counted, struct.pack("<BBHII", 4, 0x2E, 8, 1, 32))).kernels
    with pytest.raises(MalformedObject, match="numbered without gaps"):
        _ = Cubin(
            patched(synthetic, ".nv.info.k", b"\x17\x0c\x00" + bytes(6), b"\x17\x0c\x00" + bytes(4) + b"\1\0")
        ).kernels


def test_an_assembler_that_may_not_mark_spills() -> None:
    """With an older release or none, missing marks prove nothing."""
    raw = cubin_of(TEXT, "sm_90a")
    assert all(kernel.spill_offsets == () for kernel in Cubin(raw).kernels)
    older = patched(raw, ".note.nv.tkinfo", b"release 13.0", b"release 12.9")
    assert all(kernel.spill_offsets is None for kernel in Cubin(older).kernels)
    spilled = patched(cubin_of(TEXT, "sm_90a", TIGHT), ".note.nv.tkinfo", b"release 13.0", b"release 12.9")
    marked = {kernel.name: kernel.spill_offsets for kernel in Cubin(spilled).kernels}
    assert marked["busy"]
    assert marked["plain"] is None


def test_attributes_that_are_damaged() -> None:
    with pytest.raises(MalformedObject, match="format 5"):
        list(attributes(b"\x05\x2f\0\0"))
    for cut in (b"\x04", b"\x04\x2f\x08", b"\x04\x2f\x08\0\1\0\0\0"):
        with pytest.raises(MalformedObject, match="longer"):
            list(attributes(cut))


def readable(raw: bytes) -> None:
    """Query everything in a cubin; only MalformedObject may be raised."""
    try:
        cubin = Cubin(raw)
        _ = (cubin.arch, cubin.tool_version)
        names = mnemonics_of(cubin.capability)
        for kernel in cubin.kernels:
            spills_of(kernel, names)
        cubin.data_of("x")
    except MalformedObject:
        pass


SEED = tiny_cubin("k", (16, 4), shared=256, data={"x": b"abcd" * 20})


@given(st.integers(0, len(SEED)))
def test_a_file_that_is_cut_off(size: int) -> None:
    readable(SEED[:size])


@given(st.lists(st.tuples(st.integers(0, len(SEED) - 1), st.integers(0, 255)), max_size=8))
def test_a_file_with_other_bytes(changes: list[tuple[int, int]]) -> None:
    spoilt = bytearray(SEED)
    for place, value in changes:
        spoilt[place] = value
    readable(bytes(spoilt))


@given(
    st.sampled_from(range(len(Elf(SEED).sections))),
    st.sampled_from([0, 4, 8, 16, 24, 32, 40, 44, 48, 56]),
    st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([1, 2**31, 2**32 - 1, 2**63, len(SEED)])),
)
def test_section_headers_with_other_numbers(section: int, field: int, value: int) -> None:
    """With offsets and sizes out of all bounds, nothing outside the file is read and nothing large is allocated."""
    table = struct.unpack_from("<Q", SEED, 40)[0]
    place = table + section * 64 + field
    size = 4 if field in (0, 4, 40, 44) else 8
    readable(SEED[:place] + (value % 2 ** (8 * size)).to_bytes(size, "little") + SEED[place + size :])


@given(st.binary(max_size=512))
def test_no_cubin_at_all(data: bytes) -> None:
    readable(data)
    readable(SEED[:64] + data)


@pytest.mark.slow
@pytest.mark.ci
def test_real_cubins_that_are_damaged() -> None:
    draw = random.Random(7)
    for arch in GENERATIONS:
        raw = cubin_of(TEXT, arch, TIGHT)
        for _ in range(150):
            spoilt = bytearray(raw)
            for _ in range(draw.choice((1, 8, 64))):
                spoilt[draw.randrange(len(spoilt))] = draw.randrange(256)
            readable(bytes(spoilt[: draw.choice((len(raw), draw.randrange(len(raw))))]))


def test_sections_that_claim_the_file_again_and_again() -> None:
    """65535 sections of the whole file would take gigabytes, as would an endless name that every symbol reads."""
    table, count = len(SEED), 2000
    head = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 0, len(SEED), 0, 0, 1, 0)
    raw = SEED[:40] + struct.pack("<Q", table) + SEED[48:60] + struct.pack("<H", count) + SEED[62:] + head * count
    with pytest.raises(MalformedObject, match="overlap"):
        _ = Cubin(raw).kernels
