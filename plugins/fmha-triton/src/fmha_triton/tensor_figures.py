"""Figures of ``fmha inspect`` about a kernel with tensor memory, from its PTX."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from fmha_cli import api
from fmha_triton.catalogue import algorithm_of, tensor_columns

_INSTRUCTION = re.compile(r"\btcgen05\.(\w+)")
_FROM_SHARED = re.compile(r"\btcgen05\.mma\.\S+\s+\[[^]]*\],\s*%rd")
_FROM_TENSOR = re.compile(r"\btcgen05\.mma\.\S+\s+\[[^]]*\],\s*\[")
_LANES, _K_BITS, _MILLION = 128, 256, 1e6
"""Rows of a product that one CTA has, bits of a row of A that one instruction multiplies."""


def tensor_memory_figures(kernel: api.KernelSpec, ptx: str, figures: Mapping[str, object]) -> dict[str, object]:
    """The kernel's use of tensor memory, and how many instructions it takes.

    - ``tcgen05``: instructions of the PTX by operation.
    - ``mbarriers``: initialised barriers of a CTA, and ``cluster_barriers``: arrivals at ``barrier.cluster``.
    - ``tensor_memory_columns``: columns that scores and O fill.
    - ``instructions_per_mflop``: SASS instructions over the million FLOP that one CTA does if each product of the code runs once.

    Args:
        figures: those of the cubin; without a count of instructions the last figure is None.
    """
    signature = kernel.signature
    k = _K_BITS // signature.dtype.bits
    scores, sums = len(_FROM_SHARED.findall(ptx)), len(_FROM_TENSOR.findall(ptx))
    flop = 2 * _LANES * k * (scores * algorithm_of(kernel).block_n + sums * signature.hdim_v)
    classes = figures.get("instruction_classes")
    total = classes.get("total") if isinstance(classes, Mapping) else None
    return {
        "tcgen05": dict(sorted(Counter(_INSTRUCTION.findall(ptx)).items())),
        "mbarriers": ptx.count("mbarrier.init"),
        "cluster_barriers": ptx.count("barrier.cluster.arrive"),
        "tensor_memory_columns": tensor_columns(kernel, signature.hdim_v),
        "instructions_per_mflop": round(total / (flop / _MILLION), 1) if total and flop else None,
    }
