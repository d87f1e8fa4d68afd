"""``DispatchKey``: exactly the values that upstream's dispatch looks at on one architecture.

A key leaves out the kernels' run-time arguments: sequence lengths, window sizes, ALiBi slopes, the softcap, the dropout
probability, the ratio of heads, and whether sums are in a fixed order. Two problems with the same key run the same main
kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from fmha_cli.backends.flash_attn.cache_limits import PAGE_STEP
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.flash_attn.tiles import backward_traits, facts_of, forward_traits, split_traits
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.encode import SCHEMA_VERSION, digest_of, encode_fields
from fmha_cli.domain.features import Alibi, Bias, Direction, Mode, QScale
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey

PREFIX = "fa2:"


class Page(StrEnum):
    """The class of a page size; the size itself is a run-time number."""

    NONE = "none"
    WHOLE = "whole"
    """A multiple of 256 keys."""
    OTHER = "other"

    @staticmethod
    def of(keys: int) -> Page:
        """The class of a page of ``keys`` keys; 0 means not paged."""
        return Page.NONE if not keys else Page.OTHER if keys % PAGE_STEP else Page.WHOLE


@dataclass(frozen=True, kw_only=True)
class DispatchKey:
    """The axes of the dispatch table.

    Attributes:
        arch: the architecture's name with its suffix.
        head_dim: the problem's own head dim, not its bucket.
        hdim_v: the problem's own head dim of V, not its bucket.
        causal: the mask is causal once bounds past every key are dropped (``situation``).
        window: the mask is a window once bounds past every key are dropped (``situation``).
        corner: the mask cannot be counted from the bottom-right corner.
        varlen: sequences are packed.
        gqa: each key/value head serves several query heads.
        bias: there is an elementwise bias.
        qscale: there are scales of quantised tensors.
        append: new keys are appended to the cache.
        split: keys are split into several pieces.
        indexed: each sequence has another row of a linear cache than its own.
        even: all sequences have the same lengths, which are multiples of the kernel's tile (``is_even_MN``).
    """

    arch: str
    direction: Direction
    dtype: DType
    dtype_kv: DType
    dtype_out: DType
    head_dim: int
    hdim_v: int
    causal: bool = False
    window: bool = False
    corner: bool = False
    varlen: bool = False
    gqa: bool = False
    alibi: bool = False
    bias: bool = False
    sink: bool = False
    sink_logits: bool = False
    softcap: bool = False
    dropout: bool = False
    qscale: bool = False
    cache: bool = False
    page: Page = Page.NONE
    append: bool = False
    split: bool = False
    even: bool = False
    indexed: bool = False

    json_later: ClassVar[tuple[str, ...]] = ("indexed",)

    @property
    def name(self) -> str:
        """The readable name, unique to this key."""
        return PREFIX + encode_fields(self)

    @property
    def digest(self) -> str:
        """The sha256 of every axis (64 hex digits). It is the same in every process and release with this schema."""
        return digest_of({"key": "fa2", "schema": SCHEMA_VERSION, **to_json(self)})


def key_of(problem: Problem, arch: str, device: DeviceFacts | None = None) -> DispatchKey:
    """The key of a problem on an architecture.

    Args:
        device: the device that determines how keys are split; by default one of the architecture.
    """
    p, s = problem, situation_of(problem, device or DeviceFacts.of_arch(arch))
    split = s.splits.count > 1
    return DispatchKey(
        arch=arch,
        direction=p.direction,
        dtype=p.dtype,
        dtype_kv=p.dtype,
        dtype_out=p.dtype_out,
        head_dim=p.hdim,
        hdim_v=p.hdim_v,
        causal=s.mask_key is MaskKey.CAUSAL,
        window=s.mask_key is MaskKey.WINDOW,
        corner=s.given is None,
        varlen=p.mode is Mode.GROUP,
        gqa=p.heads != p.kv_heads,
        alibi=p.alibi is not Alibi.NONE,
        bias=p.bias is not Bias.NONE,
        sink=p.sink > 0,
        sink_logits=p.sink_logits,
        softcap=p.softcap > 0,
        dropout=p.dropout > 0,
        qscale=p.qscale is not QScale.NONE,
        cache=p.cache_seqlens is not None,
        page=Page.of(p.kv_cache.page),
        append=p.append > 0,
        split=split,
        even=_even(s, arch),
        indexed=p.cache_batch_idx is not None,
    )


def _even(s: FlashSituation, arch: str) -> bool:
    """``Is_even_MN`` for the tile of the kernel that upstream would take; false where it would take none."""
    tile = _tile(s, arch)
    return tile is not None and s.takes_even_mn(tile)


def _tile(s: FlashSituation, arch: str) -> tuple[int, ...] | None:
    spec, hdim = load_arch(arch), s.bucket
    if hdim is None or NAME not in spec.backends:
        return None
    dropout = s.problem.dropout > 0
    if s.api.backward:
        traits = backward_traits(hdim, dropout, facts_of(spec))
        return traits.tile if traits else None
    if s.forced or s.splits.count > 1:
        return split_traits(hdim).tile
    return forward_traits(hdim, dropout, s.mask.is_causal, facts_of(spec)).tile
