"""The free choices of a FlashAttention-2 kernel: the choices of upstream's launch templates apart from the signature."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.domain.kernel import Algorithm


@dataclass(frozen=True, kw_only=True)
class FaAlgorithm(Algorithm):
    """Template arguments of the kernel and of its traits, by upstream's names.

    Source, in ``csrc/flash_attn/src``: ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h`` make the
    choice; ``kernel_traits.h`` ``Flash_fwd_kernel_traits`` and ``Flash_bwd_kernel_traits`` define the meaning.

    Attributes:
        tile: ``kBlockM``, ``kBlockN`` of the traits. The combine kernel shares the traits of its split-KV kernel.
            The first and last stage of a backward pass share the traits of the main kernel.
        warps: ``kNWarps``.
        even_mn: ``Is_even_MN``: both lengths are multiples of the tile, and sequences are not packed.
        even_k: ``Is_even_K``: the head dim equals the traits' (``kHeadDim``, the signature's hdim).
        atoms: ``AtomLayoutMSdP``, ``AtomLayoutNdKV``, ``AtomLayoutMdQ`` in backward families, else empty.
        v_in_regs: ``Is_V_in_regs``, in backward families only.
        single_buffer: ``No_double_buffer``, in backward families only.
        combine_rows: ``kBlockM`` of the combine kernel itself, which is the rows of one block; 0 in other families.
        log_max_splits: ``Log_max_splits`` of the combine kernel, which takes up to 2 ** log_max_splits parts; 0 in
            other families.
        clear_dq_accum: ``Clear_dQaccum``: the bwd_dot_do_o kernel zeroes the dQ accumulator.
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
