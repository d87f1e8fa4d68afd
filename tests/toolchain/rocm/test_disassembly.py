"""Instruction counts agree with the compiler's assembly; instruction classes; possible errors."""

from __future__ import annotations

import re
import stat
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from fmha_cli.toolchain.elf import Elf, Symbol
from fmha_cli.toolchain.instruction_classes import Isa, classes_of
from fmha_cli.toolchain.rocm.candidates import llvm_tool
from fmha_cli.toolchain.rocm.disassembly import DisassemblyError, disassemble, summarise
from tests.support.builds.amdgpu_tiny import ARCHS, Tiny, compiled, program

_BUSY = Tiny(lds=1024, stack=200)


def assembly(tiny: Tiny, folder: Path) -> Counter[str]:
    """Mnemonics in the compiler's assembly, of the kernel and of the function that OpenCL keeps of it."""
    source = folder / "tiny.cl"
    source.write_text(tiny.source)
    target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={tiny.arch}", "-nogpulib")
    command = [program("clang"), "-x", "cl", "-cl-std=CL2.0", *target, "-O2", "-S", "-o", "-", str(source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.split(";")[0].strip() for line in text.splitlines() if line.startswith("\t")]
    return Counter(half.split()[0] for line in lines if line and line[0] != "." for half in line.split(" :: "))


@pytest.mark.parametrize("arch", ARCHS)
def test_it_counts_what_the_compiler_wrote(arch: str, tmp_path: Path) -> None:
    tiny = Tiny(arch=arch, lds=1024, stack=200, vgpr=20)
    code, _ = compiled(tiny, tmp_path)
    listing = disassemble(code, Path(program("llvm-objdump")))
    written = assembly(tiny, tmp_path)
    assert listing.instructions == dict(written)
    dual = sum(count for mnemonic, count in written.items() if mnemonic.startswith("v_dual_"))
    assert listing.total == written.total() - dual // 2
    assert listing.classes["dual_issue"] == dual
    functions = [symbol for symbol in Elf(code).symbols if symbol.is_function]
    assert listing.classes["transcendental"] == len(functions)
    assert listing.classes["barrier"] >= len(functions)
    assert listing.classes["lds"] == 2 * len(functions)
    assert set(listing.functions) == {symbol.name for symbol in functions} >= {"tiny"}
    assert sum(listing.functions.values()) == listing.total
    assert listing.code_bytes == sum(symbol.size for symbol in functions)


@pytest.mark.parametrize(
    ("mnemonic", "classes"),
    [
        ("v_mfma_f32_32x32x8_f16", {"matrix"}),
        ("v_smfmac_f32_16x16x32_f16", {"matrix"}),
        ("v_wmma_f32_16x16x16_f16", {"matrix"}),
        ("v_swmmac_f32_16x16x32_f16", {"matrix"}),
        ("ds_read_b64_tr_b16", {"lds"}),
        ("ds_bpermute_b32", {"lds"}),
        ("ds_add_rtn_u32", {"lds", "atomic"}),
        ("global_load_dwordx4", {"global"}),
        ("buffer_load_dword", {"global"}),
        ("buffer_atomic_add_f32", {"global", "atomic"}),
        ("buffer_wbl2", set()),
        ("flat_store_dword", {"global"}),
        ("scratch_load_dwordx2", {"scratch"}),
        ("s_load_dwordx8", {"scalar_memory"}),
        ("s_buffer_load_b32", {"scalar_memory"}),
        ("v_exp_f32_e32", {"transcendental"}),
        ("v_log_f32_e32", {"transcendental"}),
        ("v_rcp_iflag_f32_e32", {"transcendental"}),
        ("v_rsq_f16_e64", {"transcendental"}),
        ("v_sqrt_f32_e32", {"transcendental"}),
        ("v_sin_f32_e32", {"transcendental"}),
        ("v_s_exp_f32", {"transcendental"}),
        ("v_max3_f32", set()),
        ("s_barrier_signal", {"barrier"}),
        ("s_waitcnt", {"wait"}),
        ("s_cbranch_scc1", {"branch"}),
        ("s_branch", {"branch"}),
        ("v_dual_mov_b32", {"dual_issue"}),
    ],
)
def test_classes(mnemonic: str, classes: set[str]) -> None:
    assert {name for name, pattern in classes_of(Isa.AMDGPU).items() if pattern.match(mnemonic)} == classes


LISTING = """
0000000000001000 <f>:
\ts_mov_b32 s0, 1                                            // 000000001000: BE800081
\tv_dual_mov_b32 v0, v1 :: v_dual_add_f32 v2, v3, v4         // 000000001004: CA080101 00020803
\ts_cbranch_scc1 1                                           // 00000000100C: BF850001 <f+0x14>
\ts_endpgm                                                   // 000000001010: BF810000
\ts_code_end                                                 // 000000001014: BF9F0000
"""


def test_padding_does_not_count() -> None:
    listing = summarise(LISTING, [Symbol("f", 0x1000, 0x14, True)])
    assert listing.total == 4
    assert listing.code_bytes == 0x14
    assert listing.instructions["v_dual_add_f32"] == 1
    assert "s_code_end" not in listing.instructions


def test_code_that_is_missing_from_the_listing() -> None:
    for missing in LISTING.splitlines()[2:6]:
        with pytest.raises(DisassemblyError, match="of 20 bytes"):
            summarise(LISTING.replace(missing, ""), [Symbol("f", 0x1000, 0x14, True)])


def test_a_disassembler_that_fails(tmp_path: Path) -> None:
    code, _ = compiled(_BUSY, tmp_path)
    for text, says in (("#!/bin/sh\necho no such CPU >&2; exit 3\n", "status 3: no such CPU"), ("#!/bin/sh\n", "0 of")):
        tool = tmp_path / "llvm-objdump"
        tool.write_text(text)
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        with pytest.raises(DisassemblyError, match=says):
            disassemble(code, tool)
    with pytest.raises(DisassemblyError, match="failed"):
        disassemble(code, tmp_path / "absent")


def test_the_tool_of_a_compiler(tmp_path: Path) -> None:
    def tool(*parts: str) -> Path:
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    nowhere = str(tmp_path / "empty")
    assert llvm_tool("llvm-objdump", search=nowhere) is None
    on_path = tool("path", "llvm-objdump-21")
    assert llvm_tool("llvm-objdump", search=str(on_path.parent)) == on_path
    tool("path", "llvm-objdump")
    assert llvm_tool("llvm-objdump", search=str(on_path.parent)) == on_path
    real = tool("llvm-22", "bin", "clang")
    beside = tool("llvm-22", "bin", "llvm-objdump")
    link = tmp_path / "bin" / "clang++-22"
    link.parent.mkdir()
    link.symlink_to(real)
    assert llvm_tool("llvm-objdump", link, str(on_path.parent)) == beside
    versioned = tool("bin", "llvm-objdump-22")
    assert llvm_tool("llvm-objdump", link, str(on_path.parent)) == versioned
    rocm = tool("rocm", "llvm", "bin", "llvm-objdump")
    assert llvm_tool("llvm-objdump", tool("rocm", "bin", "hipcc"), nowhere) == rocm
    plain = tmp_path / "bin" / "llvm-readelf-22"
    plain.write_text("not a program")
    assert llvm_tool("llvm-readelf", link, nowhere) is None


def test_real_tools_are_found_beside_a_real_compiler() -> None:
    compiler = Path(program("clang"))
    found = llvm_tool("llvm-objdump", compiler, search="")
    if found is None:
        pytest.skip("the compiler has no llvm-objdump beside it")
    answer = subprocess.run([str(found), "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search("LLVM version", answer)
