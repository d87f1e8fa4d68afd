"""Loading code objects into memory: relocations, metadata, damaged files, cached disassemblies."""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import stat
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fmha_amdgpu_emu_tests.support.harness import ARCHS, tool
from fmha_amdgpu_emu_tests.support.machine import Program, Refused, compile_hip, device, link_assembly, place

SOURCE = """
DEVICE u32 word = 41;
KERNEL void first(u32* out, u32 a, u64 b, const u32* c) { LDS static u32 room[64]; room[TX] = a; SYNC; out[TX] = room[63 - TX] + b + c[0] + word; }
KERNEL void second(u32* out) { out[TX] = 2; }
"""


@cache
def image(arch: str) -> bytes:
    """A code object with two kernels, metadata, data and relocations."""
    with TemporaryDirectory() as folder:
        return compile_hip(arch, SOURCE, Path(folder))


@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_and_arguments(arch: str) -> None:
    known = Program(image(arch)).kernels()
    assert known["arch"] == arch
    assert sorted(known["kernels"]) == ["first", "second"]
    first = known["kernels"]["first"]
    assert first["lds"] == 256
    assert first["arguments"][:4] == [
        [0, 8, "global_buffer"], [8, 4, "by_value"], [16, 8, "by_value"], [24, 8, "global_buffer"]
    ]  # fmt: skip
    assert first["kernargs"] >= 32


def test_relocations(tmp_path: Path) -> None:
    """Absolute 64-bit words with a symbol, with an addend, and of an undefined weak symbol."""
    loaded = Program(link_assembly("gfx942", RELOCATED, tmp_path))
    words = {n: loaded.symbol(n) for n in ("here", "code", "to_code", "to_here", "to_weak")}

    def at(name: str) -> int:
        return ctypes.c_uint64.from_address(words[name]).value

    assert at("to_code") == words["code"]
    assert at("to_here") == words["here"] + 4
    assert at("to_weak") == 0
    assert ctypes.c_uint32.from_address(words["here"]).value == 0x12345678


RELOCATED = """
.text
.globl code
.type code,@function
code: s_endpgm
.data
.globl here, to_code, to_here, to_weak
here: .quad 0x12345678
to_code: .quad code
to_here: .quad here + 4
.weak nobody
to_weak: .quad nobody
"""


def test_an_undefined_symbol_is_named(tmp_path: Path) -> None:
    text = ".data\n.globl here\nhere: .quad missing_thing\n"
    source, out = tmp_path / "a.s", tmp_path / "a.co"
    source.write_text(text, "utf-8")

    command = (tool("clang-22", "clang"), "-x", "assembler", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx942",
               "-Wl,--unresolved-symbols=ignore-all", str(source), "-o", str(out))  # fmt: skip
    tool("ld.lld-22", "ld.lld", "lld-22")
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(Refused, match=r"needs the symbol missing_thing"):
        Program(out.read_bytes())


def test_memory_of_a_program_is_known_while_it_lives() -> None:
    loaded = Program(image("gfx942"))
    word, code = loaded.symbol("word"), loaded.symbol("first")
    assert place(word, 4)[0] == "inside"
    assert place(word, 4, write=True)[0] == "inside"
    assert place(code, 4)[0] == "inside"
    assert place(code, 4, write=True)[0] == "read-only"
    assert "code of object" in place(code, 4)[1]
    loaded.close()
    assert place(word, 4)[0] == "outside"
    assert "was there until it was freed" in place(word, 4)[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b"", "not an ELF file"),
        (lambda b: b"MZ" + b[2:], "not an ELF file"),
        (lambda b: b[:4] + b"\x01" + b[5:], "not an AMDGPU code object"),
        (lambda b: b[:18] + b"\x3e\x00" + b[20:], "not an AMDGPU code object"),
        (lambda b: b[:16] + b"\x01\x00" + b[18:], "is not linked"),
        (lambda b: b[:48] + b"\x3d" + b[49:], "another architecture .*0x3d.*gfx90a, gfx942"),
        (lambda b: b[:1000], "damaged: too many entries"),
        (lambda b: b[:40] + b"\xf0\xff\xff" + b[43:], "damaged: its section headers lies beyond its end"),
        (lambda b: b[:54] + b"\x10\x00" + b[56:], "entries of an unknown size"),
        (lambda b: b.replace(b"amdhsa.kernels", b"amdhsa.kernelZ"), None),
        (lambda b: b.replace(b"\xaeamdhsa.kernels", b"\xdfmdhsa.kernels\xff"), "metadata is damaged"),
    ],
)
def test_damaged_files_are_refused_with_a_sentence(change, words: str | None) -> None:  # type: ignore[no-untyped-def]
    damaged = change(image("gfx942"))
    if words is None:
        assert Program(damaged).kernels()["kernels"]["first"]["arguments"] == []
        return
    with pytest.raises(Refused, match=words):
        Program(damaged)


def test_random_damage_never_crashes() -> None:
    """With random bytes in headers, tables and metadata, the loader gives a program or a message, nothing else."""
    whole, refused = image("gfx942"), 0
    chance = random.Random(5)
    interesting = [*range(64), *range(64, 600), *range(len(whole) - 1500, len(whole))]
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.choice(interesting)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        try:
            Program(bytes(damaged)).close()
        except Refused:
            refused += 1
    assert refused > 10


def test_disassemblies_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second load reads the cached text. A damaged text is made again; another disassembler has a separate one."""
    cache_folder, calls = tmp_path / "kept" / "deeper", tmp_path / "calls"
    real = tool("llvm-objdump-22", "llvm-objdump")
    script = tmp_path / "objdump"
    script.write_text(f'#!/bin/sh\necho called >> {calls}\nexec {real} "$@"\n', "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FMHA_EMU_OBJDUMP", str(script))
    monkeypatch.setenv("FMHA_EMU_CACHE", str(cache_folder))
    whole = image("gfx1201")
    Program(whole).close()
    (kept,) = cache_folder.iterdir()
    assert kept.name.startswith(hashlib.sha256(whole).hexdigest() + "-")
    Program(whole).close()
    assert calls.read_text().count("called") == 1
    kept.write_text("\n".join(kept.read_text().split("\n")[:20]) + "\n")
    Program(whole).close()
    assert calls.read_text().count("called") == 2
    monkeypatch.setenv("FMHA_EMU_OBJDUMP", real)
    Program(whole).close()
    assert len(list(cache_folder.iterdir())) == 2


def test_without_a_disassembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FMHA_EMU_OBJDUMP", str(tmp_path / "nothing"))
    with pytest.raises(Refused, match="cannot be run"):
        Program(image("gfx942"))
    monkeypatch.setenv("FMHA_EMU_OBJDUMP", "/bin/false")
    with pytest.raises(Refused, match="the disassembler failed"):
        Program(image("gfx942"))
    monkeypatch.delenv("FMHA_EMU_OBJDUMP")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="no llvm-objdump"):
        Program(image("gfx942"))


def test_the_disassembler_is_not_emulated_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preloaded runtime and its report belong to the program, not to its helper."""
    seen = tmp_path / "environment"
    script = tmp_path / "objdump"
    script.write_text(f'#!/bin/sh\nenv > {seen}\nexec {tool("llvm-objdump-22", "llvm-objdump")} "$@"\n', "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FMHA_EMU_OBJDUMP", str(script))
    monkeypatch.setenv("FMHA_EMU_REPORT", str(tmp_path / "report"))
    Program(image("gfx942")).close()
    assert "FMHA_EMU_" not in seen.read_text()
    assert "PATH=" in seen.read_text()
    assert os.environ["FMHA_EMU_REPORT"]


def test_two_kernels_of_one_program_run() -> None:
    loaded = Program(image("gfx950"))
    with device(np.zeros(64, np.uint32)) as out, device(np.array([7], np.uint32), "c") as c:
        packed = (5, 0, 100, 0)  # a, padding, b (8 bytes)
        loaded.launch("first", (1, 1, 1), (64, 1, 1), out, *packed, c)
        assert (out == 5 + 100 + 7 + 41).all()
        loaded.launch("second", (1, 1, 1), (64, 1, 1), out)
        assert (out == 2).all()
        with pytest.raises(Refused, match="no kernel third"):
            loaded.launch("third", (1, 1, 1), (64, 1, 1), out)
