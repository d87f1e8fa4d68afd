"""CPU kernels with a planted fault: the generator's text with one macro set and short blocks of keys."""

from __future__ import annotations

from numerics.faults import BackwardFault, ByteFault, CacheFault, Fault, TileFault

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import Kind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec

BLOCKS = 2
"""Register tiles per block of keys: few, so that a small problem has several blocks and shows block-loop faults."""

CHOSEN = "planted_fault"
"""The variable of a library of :func:`planted_backward` that chooses the fault; 0 is none."""


def planted(kernel: KernelSpec, fault: Fault | BackwardFault | ByteFault | CacheFault | None) -> str:
    """The source of a kernel with a fault. Decode blocks are multiples of the lanes, because it uses whole vectors.

    A backward kernel cannot have the faults of caches.
    """
    cacheless = isinstance(fault, CacheFault) and algorithm_of(kernel).kind is Kind.BACKWARD
    if fault is None or cacheless:
        return emit(kernel)
    text = emit(kernel) if algorithm_of(kernel).kind is Kind.APPEND else _short_blocks(kernel)
    return _with(text, {f"#define FAULT_{fault.name} 0\n": f"#define FAULT_{fault.name} 1\n"})


def backward_faults(kernel: KernelSpec) -> tuple[BackwardFault | TileFault, ...]:
    """The faults that a backward kernel can have."""
    return (*BackwardFault, *(TileFault if algorithm_of(kernel).simd.tiles else ()))


def planted_backward(kernel: KernelSpec) -> str:
    """The source of a backward kernel with every fault, of which a variable chooses one: all cost one compile."""
    faults = backward_faults(kernel)
    macros = {
        f"#define FAULT_{fault.name} 0\n": f"#define FAULT_{fault.name} ({CHOSEN} == {number})\n"
        for number, fault in enumerate(faults, 1)
    }
    variable = f'extern "C" {{ __attribute__((visibility("default"))) int {CHOSEN} = 0; }}\n'
    return _with(f"{variable}{_short_blocks(kernel)}", macros)


def _short_blocks(kernel: KernelSpec) -> str:
    algorithm = algorithm_of(kernel)
    lanes = algorithm.simd.lanes if algorithm.kind in (Kind.DECODE, Kind.SPLIT) else 1
    block = min(algorithm.block_k, BLOCKS * max(algorithm.rows_s, lanes))
    return _with(emit(kernel), {f" BC = {algorithm.block_k},": f" BC = {block},"})


def _with(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
