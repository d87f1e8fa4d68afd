"""The content of a compiled CPU kernel, read from its disassembly."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from fmha_cli.backends.cpu.listing import disassembler, instructions
from fmha_cli.backends.cpu.loops import innermost_loops
from fmha_cli.domain.processor import machine_here
from fmha_cli.toolchain.elf import machine_of_file

_MATRIX = re.compile(r"^(vdpbf16ps|vpdp\w+|tdp\w+|bfdot|bfmmla|[us]?mmla|fmmla|fmopa)$")
_WIDTHS = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))
_ARM = re.compile(r"\bv\d+\.(4s|2d|8h|16b)")
_TIMEOUT_S = 60


def inspect_library(path: Path) -> dict[str, object]:
    """Instruction counts, vector width, an estimate of register spills, and the innermost loops.

    ``spills`` counts vector moves between a register and the stack frame. It is an estimate, because a C++ array on the
    stack looks the same. ``loop_stack_moves`` counts those in the innermost loops that multiply vectors, and
    ``loop_stack_functions`` says in which functions. Without objdump every figure is null and ``why`` states the reason.
    """
    machine = machine_of_file(path)
    tool = disassembler(machine)
    if tool is None:
        package = "binutils" if machine in (None, machine_here()) else f"binutils-{machine}-linux-gnu".replace("_", "-")
        return _nothing(f"objdump is not installed (package {package})")
    try:
        listing = _printed(tool, "-d", "--no-show-raw-insn", str(path))
    except (OSError, subprocess.SubprocessError) as fault:
        return _nothing(f"objdump failed: {fault}")
    return {**summarise(listing), "symbols": _symbols(path), "why": None}


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True).stdout


def summarise(listing: str) -> dict[str, object]:
    """The figures of one ``objdump -d`` listing."""
    counts: Counter[str] = Counter()
    spills, widest = 0, 0
    for one in instructions(listing):
        counts[one.mnemonic] += 1
        spills += one.moves_to_stack
        widest = max(widest, _width(one.operands))
    loops = innermost_loops(listing)
    multiplying = [loop for loop in loops if loop.multiplies]
    moves = Counter[str]()
    for loop in multiplying:
        moves[loop.symbol] += loop.stack_moves
    matrix = {name: n for name, n in sorted(counts.items()) if _MATRIX.match(name)}
    return {
        "instructions": dict(sorted(counts.items())),
        "matrix_instructions": sum(matrix.values()),
        "matrix_mnemonics": matrix,
        "spills": spills,
        "vector_bits": widest or None,
        "registers": None,
        "innermost_loops": len(loops),
        "multiplying_loops": len(multiplying),
        "loop_stack_moves": moves.total(),
        "loop_stack_functions": {symbol: n for symbol, n in sorted(moves.items()) if n} or None,
    }


def _width(operands: str) -> int:
    if _ARM.search(operands):
        return 128
    return next((bits for mark, bits in _WIDTHS if mark in operands), 0)


def _symbols(path: Path) -> list[str]:
    """Exported functions and data."""
    tool = shutil.which("nm")
    if tool is None:
        return []
    try:
        lines = _printed(tool, "-D", "--defined-only", str(path)).splitlines()
    except (OSError, subprocess.SubprocessError):
        return []
    return sorted(line.split()[-1] for line in lines if line.split())


def _nothing(why: str) -> dict[str, object]:
    return {**dict.fromkeys(summarise("")), "symbols": None, "why": why}
