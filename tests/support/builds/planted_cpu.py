"""CPU kernels with a planted fault: the generator's text with one macro set and short blocks of keys."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import suppress

import pytest

from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from tests.support.models.faults import BackwardFault, ByteFault, CacheFault, ExtremeFault, Fault, TileFault

BLOCKS = 2
"""Register tiles per block of keys: few, so a small problem has several blocks and shows block-loop faults."""

NAMES = tuple(
    dict.fromkeys(
        f.name for kind in (Fault, BackwardFault, ByteFault, CacheFault, ExtremeFault, TileFault) for f in kind
    )
)
"""Every fault that a text can have."""

PLANTED = "PLANTED_FAULT"
"""The variable that chooses a fault of :func:`chosen_at_load`."""

SWITCH = "planted_"
"""The prefix of :func:`switchable`'s variables."""


def planted(kernel: KernelSpec, fault: Fault | BackwardFault | ByteFault | CacheFault | ExtremeFault | None) -> str:
    """The source of a kernel with a fault. Decode blocks are multiples of the lanes, because it uses whole vectors.

    A backward kernel cannot have the faults of caches.
    """
    cacheless = isinstance(fault, CacheFault) and algorithm_of(kernel).kind is LoopKind.BACKWARD
    if fault is None or cacheless:
        return emit(kernel)
    text = emit(kernel) if algorithm_of(kernel).kind is LoopKind.APPEND else _short_blocks(kernel)
    return _with(text, {f"#define FAULT_{fault.name} 0\n": f"#define FAULT_{fault.name} 1\n"})


def backward_faults(kernel: KernelSpec) -> tuple[BackwardFault | TileFault, ...]:
    """The faults that a backward kernel can have."""
    return (*BackwardFault, *(TileFault if algorithm_of(kernel).simd.tiles else ()))


def switchable(kernel: KernelSpec) -> str:
    """The source of a kernel with short blocks of keys and every fault behind a variable: all of them cost one compile."""
    text = emit(kernel) if algorithm_of(kernel).kind is LoopKind.APPEND else _short_blocks(kernel)
    found = [name for name in NAMES if f"#define FAULT_{name} 0\n" in text]
    text = _with(text, {f"#define FAULT_{name} 0\n": f"#define FAULT_{name} {SWITCH}{name}\n" for name in found})
    return "".join(map(switch, found)) + text


def chosen_at_load(kernel: KernelSpec) -> str:
    """The source of :func:`switchable` whose fault is the one that ``PLANTED_FAULT`` names when a process loads the library."""
    text = switchable(kernel)
    found = [name for name in NAMES if f" {SWITCH}{name} = 0;" in text]
    lines = "".join(f'  if (!__builtin_strcmp(name, "{name}")) {SWITCH}{name} = 1;\n' for name in found)
    return (
        f'{text}\n#include <cstdlib>\n__attribute__((constructor)) static void plant() {{\n  const char* name = std::getenv("{PLANTED}");\n'
        f"  if (!name) return;\n{lines}}}\n"
    )


def switch(name: str) -> str:
    """The definition of a variable that :func:`choose` sets."""
    return f'extern "C" {{ __attribute__((visibility("default"))) int {SWITCH}{name} = 0; }}\n'


def choose(library: ctypes.CDLL, name: str | None, names: Iterable[str] = NAMES) -> ctypes.CDLL:
    """A library of :func:`switchable` with one fault on and the others off.

    Raises:
        ValueError: the library has no such fault.
    """
    for other in names:
        with suppress(ValueError):
            ctypes.c_int.in_dll(library, SWITCH + other).value = 0
    if name is not None:
        ctypes.c_int.in_dll(library, SWITCH + name).value = 1
    return library


def build_quickly(patch: pytest.MonkeyPatch) -> None:
    """Compile with -O1, which takes two thirds of the time: a test of a fault asks whether values are wrong, not for their bits."""
    patch.setattr(building, "_COMMON", tuple("-O1" if flag == "-O3" else flag for flag in building._COMMON))


def _short_blocks(kernel: KernelSpec) -> str:
    algorithm = algorithm_of(kernel)
    lanes = algorithm.simd.lanes if algorithm.kind in (LoopKind.DECODE, LoopKind.SPLIT) else 1
    block = min(algorithm.block_k, BLOCKS * max(algorithm.rows_s, lanes))
    return _with(emit(kernel), {f" BC = {algorithm.block_k},": f" BC = {block},"})


def _with(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
