"""The facts about upstream's kernels, ``arch_specs/_flash_attn_3.json``: head dims, tiles, backward traits."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.signature import MaskKey

NAME = "flash_attn_3"
ELEMENTS = {
    DType.FP16: "cutlass::half_t",
    DType.BF16: "cutlass::bfloat16_t",
    DType.FP8_E4M3: "cutlass::float_e4m3_t",
    DType.FP32: "float",
}
BYTES = {DType.FP16: 2, DType.BF16: 2, DType.FP8_E4M3: 1}
MASKS = (MaskKey.NONE, MaskKey.CAUSAL, MaskKey.WINDOW)
"""Neither, ``Is_causal``, and ``Is_local``."""


class Tile(NamedTuple):
    """A row of ``tile_size_fwd_sm90``: ``kBlockM``, ``kBlockN``, ``MmaPV_is_RS``, ``IntraWGOverlap``."""

    rows: int
    keys: int
    p_in_regs: bool
    overlap: bool


@cache
def document() -> Mapping[str, Any]:
    return arch_document("_flash_attn_3.json", "fmha.flash-attn-3/1")


@cache
def pairs(element_bytes: int) -> tuple[tuple[int, int], ...]:
    """The head dims of Q and V for which upstream has forward kernels, in upstream's order."""
    return tuple((d, dv) for d, dv in document()["pairs"][str(element_bytes)])


def compile_seconds(family: Family) -> tuple[float, float] | None:
    """The least and the most processor seconds that compiling a kernel of a family took."""
    least, most = document()["compile seconds"][family.value]
    return least, most


@cache
def _tiles() -> Mapping[tuple[Any, ...], Tile]:
    masks = {mask.value: mask for mask in MASKS}
    return {
        (size, d, dv, masks[mask], bool(paged), bool(softcap)): Tile(rows, keys, bool(in_regs), bool(overlap))
        for size, d, dv, mask, paged, softcap, rows, keys, in_regs, overlap in document()["tiles"]
    }


def tile_of(element_bytes: int, hdims: tuple[int, int], mask: MaskKey, *, paged: bool, softcap: bool) -> Tile:
    """The tile of a forward kernel.

    Args:
        hdims: a pair of :func:`pairs`.
        paged: ``PagedKVNonTMA``.

    Raises:
        KeyError: upstream has no such kernel.
    """
    return _tiles()[element_bytes, *hdims, mask, paged, softcap]
