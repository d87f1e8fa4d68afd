"""Instruction counts of a code object, as ``llvm-objdump -d`` decodes it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.toolchain.elf import Elf, Symbol
from fmha_cli.toolchain.instruction_classes import Isa, count_classes

_LINE = re.compile(r"^\t(?P<text>.*?)\s*// (?P<address>[0-9A-F]{8,16}):(?P<words>(?: [0-9A-F]{8})+)(?: <.*>)?$")
_TIMEOUT_S = 120


class DisassemblyError(Exception):
    """The disassembler is missing, fails, or prints something unreadable; the message is one line."""


@dataclass(frozen=True)
class AmdListing:
    """The instructions of the functions of a code object, padding between functions left out.

    Attributes:
        instructions: mnemonic (as the disassembler spells it) -> count; both halves of a dual issue count.
        total: number of instructions; a dual issue counts as one.
        classes: class -> count; an instruction may be in several classes.
        code_bytes: size of the instructions in bytes.
        functions: function -> its number of instructions.
    """

    instructions: Mapping[str, int]
    total: int
    classes: Mapping[str, int]
    code_bytes: int
    functions: Mapping[str, int]


def disassemble(code_object: bytes, objdump: Path) -> AmdListing:
    """Decode a code object.

    Args:
        objdump: an ``llvm-objdump`` that knows the architecture.

    Raises:
        DisassemblyError: it cannot be started, fails, or does not know the instructions.
        MalformedObject: no code object.
    """
    functions = [symbol for symbol in Elf(code_object).symbols if symbol.is_function and symbol.size]
    with tempfile.TemporaryDirectory(prefix="fmha-disassembly-") as folder:
        path = Path(folder, "code.co")
        path.write_bytes(code_object)
        command = [str(objdump), "-d", "--no-show-raw-insn", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            raise DisassemblyError(f"{objdump.name} failed: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or "it prints nothing").splitlines()[-1]
        raise DisassemblyError(f"{objdump.name} ended with status {done.returncode}: {last}")
    return summarise(done.stdout, functions)


def summarise(listing: str, functions: Sequence[Symbol]) -> AmdListing:
    """Count the instructions of a listing that are inside the functions.

    Raises:
        DisassemblyError: some bytes of the functions are missing from the listing, or were not decoded.
    """
    counts: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    total = code_bytes = 0
    spans = sorted((symbol.address, symbol.address + symbol.size, symbol.name) for symbol in functions)
    place = 0
    for line in listing.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        address = int(match["address"], 16)
        while place < len(spans) and address >= spans[place][1]:
            place += 1
        if place == len(spans) or address < spans[place][0]:
            continue
        counts.update(half.split()[0] for half in match["text"].split(" :: "))
        total += 1
        inside[spans[place][2]] += 1
        code_bytes += len(match["words"]) // 9 * 4
    expected = sum(end - start for start, end, _ in spans)
    if code_bytes != expected:
        raise DisassemblyError(f"{code_bytes} of {expected} bytes of code were decoded")
    return AmdListing(
        instructions=dict(sorted(counts.items())),
        total=total,
        classes=count_classes(counts, Isa.AMDGPU),
        code_bytes=code_bytes,
        functions=dict(inside),
    )
