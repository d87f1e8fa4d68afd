"""CPU kernels with a planted fault: the generator's text with one macro set and short blocks of keys."""

from __future__ import annotations

from numerics.faults import Fault

from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import Kind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec

BLOCKS = 2
"""Register tiles per block of keys: few, so that a small problem has several blocks and shows block-loop faults."""


def planted(kernel: KernelSpec, fault: Fault | None) -> str:
    """The source of a kernel with a fault. Decode blocks are multiples of the lanes, because it uses whole vectors."""
    text, algorithm = emit(kernel), algorithm_of(kernel)
    if fault is None:
        return text
    lanes = algorithm.simd.lanes if algorithm.kind is Kind.DECODE else 1
    block = min(algorithm.block_k, BLOCKS * max(algorithm.rows_s, lanes))
    macro = f"#define FAULT_{fault.name}"
    for old, new in ((f"{macro} 0\n", f"{macro} 1\n"), (f" BC = {algorithm.block_k},", f" BC = {block},")):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
