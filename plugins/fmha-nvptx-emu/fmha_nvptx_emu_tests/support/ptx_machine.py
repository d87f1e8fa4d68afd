"""Runs hand-written PTX on numpy arrays: the emulator's library, without a driver around it."""

from __future__ import annotations

import ctypes
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from fmha_nvptx_emu.building import build_emulator

from fmha_cli.plugin import BuildContext, cache_root
from tests.support.careful import run_twice

Array = npt.NDArray[Any]
LIBRARY = "FMHA_NVPTX_EMU_LIBRARY"
"""A library that was built otherwise (debugging, sanitisers)."""


class _Region(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("writable", ctypes.c_int),
    )


@dataclass(frozen=True)
class Seen:
    """What a launch left.

    Attributes:
        fault: why it stopped, or why the text does not load.
        findings: as the library describes them.
        executed: its counts; empty if it did not start.
    """

    fault: str | None
    findings: list[dict[str, Any]]
    executed: dict[str, Any]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the findings, in the order of their lines."""
        return [found["kind"] for found in self.findings]

    def named(self, kind: str, words: str) -> bool:
        """Whether it ran to its end, and a finding of this kind has these words."""
        return self.fault is None and any(one["kind"] == kind and words in one["text"] for one in self.findings)


@cache
def library_at(path: str) -> ctypes.CDLL:
    """The library of a path. Each process loads it once."""
    loaded = ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL)
    loaded.emu_run.restype = loaded.emu_opcodes.restype = ctypes.c_char_p
    return loaded


@cache
def built(root: Path) -> str:
    """The path of the emulator from this cache, built if needed."""
    return str(build_emulator(BuildContext(cache_root=root, jobs=2)).path)


def library() -> ctypes.CDLL:
    """The library in ``FMHA_NVPTX_EMU_LIBRARY``, or else one built in the cache of the environment."""
    return library_at(os.environ.get(LIBRARY) or built(cache_root()))


def opcodes() -> dict[str, str]:
    """Every opcode with its section of the PTX ISA."""
    rows: list[list[str]] = json.loads(library().emu_opcodes())
    return {row[0]: row[1] for row in rows}


def launch(
    text: str,
    *arguments: Array | np.generic,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] = (32, 1, 1),
    shared: int = 0,
    kernel: str = "k",
    seed: int = 0,
    checks: bool = True,
    read_only: Sequence[int] = (),
    threads: int = 1,
    base: int = 0,
) -> Seen:
    """Run a kernel. Arrays become pointers, at the offsets that ``.param .u64`` and so on give; kernels write into them.

    Unless several threads share the blocks, it also runs carefully (``careful.py``).

    Args:
        read_only: indices of arrays that the kernel may not write.
        base: where parameters begin in the constant bank, which their alignment counts from.
    """
    data, regions = bytearray(), []
    for index, argument in enumerate(arguments):
        value = argument
        if isinstance(argument, np.ndarray):
            assert argument.flags.c_contiguous
            start = argument.ctypes.data
            name = f"array {index}".encode()
            regions.append(_Region(name, start, start + argument.nbytes, index not in read_only))
            value = np.uint64(start)
        size = min(value.dtype.itemsize, 64)  # a tensor map's 128 bytes are aligned to 64
        data += bytes(-(base + len(data)) % size) + value.tobytes()
    held = library()
    held.emu_options(ctypes.c_uint64(seed), threads, int(checks))
    three = ctypes.c_uint32 * 3
    rows = (_Region * max(1, len(regions)))(*regions)

    def run() -> Any:
        answer = held.emu_run(
            text.encode(), kernel.encode(), three(*grid), three(*block), shared, bytes(data), ctypes.c_uint64(len(data)), rows,
            ctypes.c_uint64(len(regions)),
        )  # fmt: skip
        return json.loads(answer)

    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    seen = run() if threads > 1 else run_twice(held, run, arrays)
    return Seen(seen["fault"], seen["findings"], seen["executed"][0] if seen["executed"] else {})


def module(body: str, parameters: str = ".param .u64 p0", directives: str = "", head: str = "") -> str:
    """A module with the kernel ``k``.

    The registers %r0 to %r63, %rd0 to %rd31, %f0 to %f31, %h0 to %h15, %d0 to %d15 and %p0 to %p7 are declared. %rd0 has
    the first parameter, which is a pointer, and %r0 the thread.
    """
    return f""".version 8.7
.target sm_80
.address_size 64
{head}
.visible .entry k({parameters}) {directives}
{{
.reg .b32 %r<64>;
.reg .b64 %rd<32>;
.reg .f32 %f<32>;
.reg .b16 %h<16>;
.reg .f64 %d<16>;
.reg .pred %p<8>;
ld.param.u64 %rd0, [p0];
mov.u32 %r0, %tid.x;
{body}
ret;
}}
"""


WIDTHS = {"h": ("b16", 2), "r": ("b32", 4), "f": ("f32", 4), "rd": ("b64", 8), "d": ("f64", 8), "p": ("u32", 4)}


def evaluate(instruction: str, inputs: Sequence[Array], result: str, dtype: Any) -> Array:
    """32 lanes of one instruction: ``add.s32 D, A, B``; A, B, C, E are the inputs, D the result.

    Args:
        inputs: 32 elements each; the element's size decides the register. Booleans become predicates.
        result: the kind of register of D, a key of ``WIDTHS``.
        dtype: of the returned elements.
    """
    code, names = [], {}
    for place, (letter, array) in enumerate(zip("ABCE", inputs, strict=False)):
        bits = array.astype(np.uint32) if array.dtype == bool else array
        size = bits.dtype.itemsize
        kind = {2: "h", 4: "r", 8: "rd"}[size]
        register = f"%{kind}{8 + place}"
        code += [
            f"ld.param.u64 %rd{20 + place}, [p{place + 1}];",
            f"mad.wide.u32 %rd{20 + place}, %r0, {size}, %rd{20 + place};",
            f"ld.global.b{8 * size} {register}, [%rd{20 + place}];",
        ]
        if array.dtype == bool:
            code.append(f"setp.ne.u32 %p{place + 1}, {register}, 0;")
            register = f"%p{place + 1}"
        names[letter] = register
    names["D"] = "%p7" if result == "p" else f"%{result}3"
    text = re.sub(r"(?<![\w.%])[ABCDE](?![\w.])", lambda found: names[found[0]], instruction)
    type_, size = WIDTHS[result]
    store = (
        "selp.u32 %r40, 1, 0, %p7; st.global.u32 [%rd30], %r40;"
        if result == "p"
        else f"st.global.{type_} [%rd30], {names['D']};"
    )
    code += [text + ";", f"mad.wide.u32 %rd30, %r0, {size}, %rd0;", store]
    parameters = ", ".join(f".param .u64 p{k}" for k in range(len(inputs) + 1))
    output = np.zeros(32, {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[size])
    arrays = [np.ascontiguousarray(a.astype(np.uint32) if a.dtype == bool else a) for a in inputs]
    seen = launch(module("\n".join(code), parameters), output, *arrays)
    assert seen.fault is None, seen.fault
    assert not seen.findings, seen.findings
    return output.astype(bool) if result == "p" else output.view(dtype)
