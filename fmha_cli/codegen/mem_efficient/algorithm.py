"""The free choices of a memory-efficient attention kernel: the template arguments other than element type and dropout."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.kernel import Algorithm

NAME = "mem_efficient"


@dataclass(frozen=True, kw_only=True)
class MemEffAlgorithm(Algorithm):
    """Template arguments of ``AttentionKernel`` and ``AttentionBackwardKernel``, by upstream's names.

    Source: ``xformers/csrc/attention/cuda/fmha`` of xformers 0.0.28.post3, ``generate_kernels.py`` ``FwdKernel`` and
    ``BwdKernel``, which write every instance.

    Attributes:
        tag: the number of ``ArchTag`` (50, 70, 75, 80): what the code uses, which may be older than what it is compiled for.
        aligned: ``isAligned``: rows may be loaded in the largest units of the type.
        tile: ``kQueriesPerBlock``, ``kKeysPerBlock``; of a backward kernel ``kBlockSizeI``, ``kBlockSizeJ``.
        max_k: ``kMaxK``: the largest head dim, 65536 for no limit.
        preload: ``kPreload`` of a backward kernel: the operands of the next product are loaded during this one.
        seq_aligned: ``keys_queries_aligned_to_blocksizes`` of a backward kernel: both lengths are multiples of the tile, and
            sequences are not packed.
    """

    tag: int
    aligned: bool
    tile: tuple[int, ...]
    max_k: int
    preload: bool = False
    seq_aligned: bool = False
