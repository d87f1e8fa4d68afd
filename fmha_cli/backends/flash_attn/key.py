"""``DispatchKey``: what upstream's dispatch looks at, all of it and nothing else, for one architecture.

A key leaves out what kernels take at run time: lengths, the size of a window, slopes, a cap, a probability, the
ratio of heads, whether sums are in a fixed order. Two problems with one key run the same main kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.arch import load_arch
from fmha_cli.backends.flash_attn.cache_limits import PAGE_STEP
from fmha_cli.backends.flash_attn.evenness import even_mn
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.backends.flash_attn.tiles import backward_traits, facts_of, forward_traits, split_traits
from fmha_cli.device import DeviceFacts
from fmha_cli.dtypes import DType
from fmha_cli.encode import SCHEMA_VERSION, decode_fields, digest_of, encode_fields, fields_dict
from fmha_cli.errors import UsageError
from fmha_cli.features import Alibi, Bias, Direction, Mode, QScale
from fmha_cli.problem import Problem
from fmha_cli.signature import MaskKey

PREFIX = "fa2:"


class Page(StrEnum):
    """The class of a page size; the size itself is a run-time number."""

    NONE = "none"
    WHOLE = "whole"
    """A multiple of 256 keys."""
    OTHER = "other"

    @staticmethod
    def of(keys: int) -> Page:
        """0 keys: not paged."""
        return Page.NONE if not keys else Page.OTHER if keys % PAGE_STEP else Page.WHOLE


@dataclass(frozen=True, kw_only=True)
class DispatchKey:
    """The axes of the dispatch table.

    Attributes:
        arch: with its suffix.
        head_dim, hdim_v: the problem's own, not their bucket.
        causal, window: what is left of the mask when bounds past every key are dropped (``situation``).
        corner: the mask cannot be counted from the bottom-right corner.
        varlen: packed sequences. gqa: several query heads for each key/value head.
        bias: an elementwise one. qscale: scales of quantised tensors.
        split: several splits. append: new keys are appended to the cache.
        even: both lengths are multiples of the kernel's tile and all sequences have them (``is_even_MN``).
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

    @property
    def name(self) -> str:
        """The readable name, which :func:`parse_key` reads back: no two keys share one."""
        return PREFIX + encode_fields(self)

    @property
    def digest(self) -> str:
        """sha256 (64 hex digits) over every axis; the same in every process and release with this schema."""
        return digest_of({"key": "fa2", "schema": SCHEMA_VERSION, **fields_dict(self)})


def parse_key(name: str) -> DispatchKey:
    """The inverse of ``DispatchKey.name``.

    Raises:
        UsageError: a name that is none.
    """
    if not name.startswith(PREFIX):
        raise UsageError(f"{name!r} is not the name of a dispatch key", code="E003", where=name, help="fa2:arch=...")
    return decode_fields(name.removeprefix(PREFIX), DispatchKey)


def key_of(problem: Problem, arch: str, device: DeviceFacts | None = None) -> DispatchKey:
    """The key of a problem on an architecture; ``device`` (else one of the architecture) tells how keys are split."""
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
    )


def _even(s: Situation, arch: str) -> bool:
    """``Is_even_MN`` for the tile of the kernel that upstream would take; no tile, no evenness."""
    tile = _tile(s, arch)
    return tile is not None and even_mn(s, tile)


def _tile(s: Situation, arch: str) -> tuple[int, ...] | None:
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
