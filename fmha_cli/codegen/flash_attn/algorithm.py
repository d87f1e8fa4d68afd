"""The free choices of a FlashAttention-2 kernel: what upstream's launch templates put beside the signature."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.kernel import Algorithm


@dataclass(frozen=True, kw_only=True)
class FaAlgorithm(Algorithm):
    """Template arguments of the kernel and of its traits, by upstream's names.

    Source: ``csrc/flash_attn/src/flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h`` (the choice),
    ``kernel_traits.h`` ``Flash_fwd_kernel_traits`` and ``Flash_bwd_kernel_traits`` (the meaning).

    Attributes:
        tile: ``kBlockM``, ``kBlockN`` of the traits. The combine kernel shares the traits of its split-KV kernel;
            the first and last stage of a backward pass share those of the main one.
        warps: ``kNWarps``.
        even_mn: ``Is_even_MN``: both lengths are multiples of the tile and batches are not packed.
        even_k: ``Is_even_K``: the head dim is the traits' own (``kHeadDim``, the signature's hdim).
        atoms: ``AtomLayoutMSdP``, ``AtomLayoutNdKV``, ``AtomLayoutMdQ`` (backward families, else empty).
        v_in_regs: ``Is_V_in_regs`` (backward).
        single_buffer: ``No_double_buffer`` (backward).
        combine_rows: ``kBlockM`` of the combine kernel itself: rows of one block (combine, else 0).
        log_max_splits: ``Log_max_splits`` (combine, else 0): the kernel takes up to 2 ** log_max_splits parts.
        clear_dq_accum: ``Clear_dQaccum`` (bwd_dot_do_o): the kernel zeroes the dQ accumulator.
    """

    tile: tuple[int, ...]
    warps: int
    even_mn: bool = False
    even_k: bool = False
    atoms: tuple[int, ...] = ()
    v_in_regs: bool = False
    single_buffer: bool = False
    combine_rows: int = 0
    log_max_splits: int = 0
    clear_dq_accum: bool = False
