"""The free choices of a FlashAttention-3 kernel: the template arguments of upstream's launch code apart from the signature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fmha_cli.domain.kernel import Algorithm


@dataclass(frozen=True, kw_only=True)
class Fa3Algorithm(Algorithm):
    """Template arguments by upstream's names. Fields at their defaults do not concern a kernel's family.

    Source, in ``hopper/``: ``flash_fwd_launch_template.h``, ``flash_fwd_combine_launch_template.h`` and
    ``flash_bwd_launch_template.h`` make the choice; ``tile_size.h`` has the tiles of forward kernels.

    Attributes:
        tile: ``kBlockM`` and ``kBlockN``; of combine ``kBlockM`` and ``kBlockK``; of prepare the sequences of a block, 31 for each
            of its ``NumWarps``. The first and last stage of a backward pass have those of the main kernel.
        p_in_regs: ``MmaPV_is_RS``: the probabilities stay in registers.
        overlap: ``IntraWGOverlap``: a warp group computes a softmax beside the next product.
        cluster: ``ClusterM``: blocks of rows that share loads of K and V.
        pack_gqa: ``PackGQA``: the query heads of a key head are rows of one tile.
        varlen: ``Varlen``: lengths of sequences, or their padding, come from arrays.
        paged: ``PagedKVNonTMA``: pages are read by cp.async, whatever their size.
        qv: ``HasQv``: a second product, of V and further columns of Q.
        sort: ``Sort`` of prepare: sequences with more keys come first.
        log_max_splits: ``kLogMaxSplits`` of combine.
        fixed_order: ``Deterministic``.
        gqa: ``GQA`` of a backward kernel: dK and dV are summed over the query heads of a key head.
        stages: ``Stages_dO`` and ``Stages_dS`` of a backward kernel.
        swapped: ``SdP_swapAB``, ``dKV_swapAB``, ``dQ_swapAB`` of a backward kernel, 0 or 1.
        groups: ``NumMmaWarpGroups`` of a backward kernel.
        atoms: ``AtomLayoutMSdP``, ``AtomLayoutNdKV``, ``AtomLayoutMdQ`` of a backward kernel.
        v_in_regs: ``V_in_regs`` of a backward kernel.
        of_keys: the last stage of a backward pass converts dK and dV, not dQ.
    """

    json_later: ClassVar[tuple[str, ...]] = ("sort",)

    tile: tuple[int, ...]
    p_in_regs: bool = False
    overlap: bool = False
    cluster: int = 1
    pack_gqa: bool = False
    varlen: bool = False
    paged: bool = False
    qv: bool = False
    sort: bool = False
    log_max_splits: int = 0
    fixed_order: bool = False
    gqa: bool = False
    stages: tuple[int, ...] = ()
    swapped: tuple[int, ...] = ()
    groups: int = 0
    atoms: tuple[int, ...] = ()
    v_in_regs: bool = False
    of_keys: bool = False
