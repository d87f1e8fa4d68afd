"""Listings of two instruction sets: instructions, moves to the stack, and which program makes a listing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.backends.cpu import inspection
from fmha_cli.backends.cpu.inspection import disassembler, inspect_library, instructions, summarise
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.elf import MACHINES, machine_of_file

ARM = """
0000000000000730 <tile>:
 730:	mov	x3, #0x0                   	// #0
 734:	ldr	q0, [x0, x3]
 738:	fmla	v16.4s, v1.4s, v0.s[0]
 73c:	bfmmla	v17.4s, v1.8h, v0.8h
 740:	{move}
 744:	b.ne	738 <tile+0x8>  // b.any
 748:	cbnz	x4, 734 <tile+0x4>
 74c:	ret
"""
X86 = """
0000000000001100 <tile>:
    1100:	{frame}
    1107:	{move}
    110d:	ret
"""


@pytest.mark.parametrize(
    ("move", "moves"),
    [
        ("vmovaps %zmm2,0x40(%rsp)", True),
        ("vmovaps %ymm2,(%rsp)", True),
        ("movaps %xmm2,0x40(%rsp)", True),
        ("vmovdqa64 -0x40(%rbp),%zmm2", True),
        ("vfmadd231ps -0x40(%rbp),%zmm2,%zmm3", True),
        ("vmovups %zmm2,0x40(%rsp,%rax,4)", False),  # an array
        ("vmovaps 0x40(%rsi),%zmm2", False),
        ("vmovss %xmm2,0x40(%rsp)", False),  # a number
        ("mov %rax,0x40(%rsp)", False),
    ],
)
def test_moves_to_the_stack(move: str, moves: bool) -> None:
    framed = X86.replace("{frame}", "mov    %rsp,%rbp").replace("{move}", move)
    assert [one.moves_to_stack for one in instructions(framed)] == [False, moves, False]


def test_the_base_pointer_is_a_pointer_where_there_is_no_frame() -> None:
    bare = X86.replace("{frame}", "nop").replace("{move}", "vmovaps -0x40(%rbp),%zmm2")
    assert [one.moves_to_stack for one in instructions(bare)] == [False, False, False]


@pytest.mark.parametrize(
    ("move", "moves"),
    [
        ("str	q2, [sp, #96]", True),
        ("ldp	q2, q3, [x29, #-32]", True),
        ("ldr	q2, [x1, #96]", False),
        ("str	x2, [sp, #96]", False),
    ],
)
def test_moves_to_the_stack_on_arm(move: str, moves: bool) -> None:
    assert any(one.moves_to_stack for one in instructions(ARM.replace("{move}", move))) == moves


def test_figures_of_an_arm_listing() -> None:
    found = summarise(ARM.replace("{move}", "stp	q2, q3, [sp]"))
    assert (found["spills"], found["vector_bits"], found["matrix_instructions"]) == (1, 128, 1)
    assert len(list(instructions(ARM))) == 8


@pytest.mark.parametrize(("number", "machine"), [*MACHINES.items(), (243, None)])
def test_the_machine_of_a_file(tmp_path: Path, number: int, machine: str | None) -> None:
    head = b"\x7fELF".ljust(18, b"\0") + number.to_bytes(2, "little")
    (tmp_path / "a.so").write_bytes(head)
    (tmp_path / "b.so").write_bytes(b"\xcf\xfa\xed\xfe" + head[4:])
    assert machine_of_file(tmp_path / "a.so") == machine
    assert machine_of_file(tmp_path / "b.so") is None


def test_the_disassembler_of_this_machine_reads_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    here: set[str] = set()
    monkeypatch.setattr(inspection.shutil, "which", lambda name: f"/bin/{name}" if name in here else None)
    other = next(machine for machine in MACHINES.values() if machine != machine_here())
    here |= {"objdump"}
    assert (disassembler(machine_here()), disassembler(other)) == ("/bin/objdump", None)
    here |= {"llvm-objdump"}
    assert disassembler(other) == "/bin/llvm-objdump"
    here |= {f"{other}-linux-gnu-objdump"}
    assert disassembler(other) == f"/bin/{other}-linux-gnu-objdump"


def test_without_a_disassembler_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(machine for machine in MACHINES.values() if machine != machine_here())
    number = next(n for n, machine in MACHINES.items() if machine == other)
    (tmp_path / "k.so").write_bytes(b"\x7fELF".ljust(18, b"\0") + number.to_bytes(2, "little"))
    monkeypatch.setattr(inspection, "disassembler", lambda machine: None)
    found = inspect_library(tmp_path / "k.so")
    assert found["instructions"] is None
    assert f"binutils-{other.replace('_', '-')}-linux-gnu" in str(found["why"])
