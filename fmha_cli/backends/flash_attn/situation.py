"""``Situation``: what upstream's host code makes of a problem before it picks a kernel, computed once per problem.

Source: ``csrc/flash_attn/flash_api.cpp`` ``mha_fwd``, ``mha_varlen_fwd``, ``mha_fwd_kvcache``, ``mha_bwd``,
``mha_varlen_bwd``, ``set_params_fprop``. Names follow its variables and parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from fmha_cli.backends.flash_attn.bounds import UNLIMITED, Bounds, Clipped, bounds_of, clipped
from fmha_cli.backends.flash_attn.multiprocessors import multiprocessors_of
from fmha_cli.backends.flash_attn.splits import Splits, upstreams_splits
from fmha_cli.backends.flash_attn.tiles import bucket
from fmha_cli.device import DeviceFacts
from fmha_cli.features import Alibi, CacheKind, Direction, Mode
from fmha_cli.problem import Problem
from fmha_cli.signature import MaskKey
from fmha_cli.tensors import pages_of

ROUND_ROWS = 128
"""Rows of queries and keys are rounded up to it in the shapes of scratch tensors."""


class Api(StrEnum):
    """The function of ``flash_api.cpp`` that a problem corresponds to."""

    FWD = "mha_fwd"
    VARLEN_FWD = "mha_varlen_fwd"
    KVCACHE = "mha_fwd_kvcache"
    BWD = "mha_bwd"
    VARLEN_BWD = "mha_varlen_bwd"

    @property
    def varlen(self) -> bool:
        return self in (Api.VARLEN_FWD, Api.VARLEN_BWD)

    @property
    def backward(self) -> bool:
        return self in (Api.BWD, Api.VARLEN_BWD)


class KeyLengths(StrEnum):
    """What ``params.cu_seqlens_k`` holds."""

    COMMON = "common"
    """Nothing (null): every sequence has ``seqlen_k`` keys."""
    STARTS = "starts"
    """First keys of ``batch + 1`` sequences: ``is_seqlens_k_cumulative``. With pages only their differences count."""
    LENGTHS = "lengths"
    """Keys of each sequence before append, left padding included; sequences are a batch stride apart."""


@dataclass(frozen=True)
class Situation:
    """One problem on one device, in upstream's words.

    Attributes:
        multiprocessors: ``get_num_sm``; ``counted`` says where it comes from.
        swapped: ``seqlenq_ngroups_swapped``: with one query row, the query heads of a group are taken as rows.
        heads, seqlen_q: after that exchange; ``seqlen_q`` is the longest sequence in group mode.
        groups: query heads for each key/value head before the exchange.
        seqlen_k: ``params.seqlen_k``: the longest sequence, or in batch mode with a cache the cache's capacity.
        total_q: rows of the packed queries after the exchange; 0 unless varlen.
        given: mask bounds from the bottom-right corner as the caller passes them, None if there are no such.
        causal_given: the caller says ``causal`` (and no window) instead.
        mask: bounds after clipping and filling, and ``params.is_causal``.
        splits: ``num_splits``; 1 where upstream leaves it at 0.
        forced: ``force_split_kernel``.
        packed_q: ``params.cu_seqlens_q`` is given.
        key_lengths: what ``params.cu_seqlens_k`` holds.
    """

    problem: Problem
    device: DeviceFacts
    multiprocessors: int
    counted: str
    api: Api
    swapped: bool
    groups: int
    heads: int
    seqlen_q: int
    seqlen_k: int
    total_q: int
    given: Bounds | None
    causal_given: bool
    mask: Clipped
    splits: Splits
    forced: bool
    packed_q: bool
    key_lengths: KeyLengths

    @property
    def seqlen_q_rounded(self) -> int:
        return next_multiple(self.seqlen_q, ROUND_ROWS)

    @property
    def seqlen_k_rounded(self) -> int:
        return next_multiple(self.seqlen_k, ROUND_ROWS)

    @property
    def hdim_rounded(self) -> int:
        """``head_size_rounded``; it is the bucket."""
        return next_multiple(self.problem.hdim, 32 if self.problem.hdim <= 128 else 64)

    @property
    def bucket(self) -> int | None:
        """``kHeadDim`` of the kernels that ``HEADDIM_SWITCH`` enters; None above the largest."""
        return bucket(self.problem.hdim)

    @property
    def even_k(self) -> bool:
        """``is_even_K`` of the launch templates."""
        return self.problem.hdim == self.bucket

    @property
    def causal_dropped(self) -> bool:
        """The caller's causal mask hides nothing from one query row, so it is dropped."""
        return self.causal_given and not self.mask.is_causal

    @property
    def unpadded_lse(self) -> bool:
        """``params.unpadded_lse``: LSE and the sums of dO * O are packed."""
        return self.api.varlen

    @property
    def mask_key(self) -> MaskKey:
        """``Is_causal`` and ``Is_local`` of the template."""
        return self.mask.key

    @property
    def launches(self) -> bool:
        """Whether the host launches kernels at all; otherwise it fills the outputs itself (flash_api.cpp: "we have an
        empty tensor"): O = 0, LSE = inf without keys, dK = dV = 0 without query rows.

        ``mha_fwd_kvcache`` always launches; with no keys, one split and no lengths its kernel may read what is not
        there, so then nothing is launched here.
        """
        if self.api.backward:
            return self.seqlen_q > 0
        safe = self.key_lengths is KeyLengths.LENGTHS or self.splits.count > 1
        return self.seqlen_k > 0 or (self.api is Api.KVCACHE and safe)

    @property
    def dq_parts(self) -> int:
        """Copies of the dQ accumulator: ``nsplits`` of a deterministic backward pass, else 1."""
        if not self.problem.deterministic:
            return 1
        blocks = self.problem.batch * self.problem.heads
        return (self.multiprocessors + blocks - 1) // blocks

    def even_mn(self, rows: int, keys: int) -> bool:
        """``is_even_MN`` of the launch templates for tiles of ``kBlockM`` rows and ``kBlockN`` keys."""
        unpacked = not self.packed_q and self.key_lengths is KeyLengths.COMMON
        return unpacked and self.seqlen_k % keys == 0 and self.seqlen_q % rows == 0


@lru_cache(maxsize=64)
def situation_of(problem: Problem, device: DeviceFacts) -> Situation:
    """The situation of a problem on a device. Defined for every problem; rules say which ones upstream refuses."""
    p, api = problem, _api(problem)
    units, counted = multiprocessors_of(device)
    rows, keys = max(p.query_lengths(), default=0), _seqlen_k(p, api)
    given = bounds_of(p)
    causal_given = given == Bounds(UNLIMITED, 0)
    one_row = rows == 1 and p.alibi is Alibi.NONE and not api.backward
    mask = clipped(given or Bounds(), keys, drop_causal=one_row and causal_given)
    unmasked = mask.unlimited if api is Api.FWD else given is None or _open(given, dropped=one_row)
    swapped = one_row and p.heads > p.kv_heads and unmasked and not p.dropout and min(p.query_lengths()) == 1
    groups = p.heads // p.kv_heads
    heads, rows = (p.kv_heads, groups) if swapped else (p.heads, rows)
    return Situation(
        problem=p,
        device=device,
        multiprocessors=units,
        counted=counted,
        api=api,
        swapped=swapped,
        groups=groups,
        heads=heads,
        seqlen_q=rows,
        seqlen_k=keys,
        total_q=sum(p.query_lengths()) * (groups if swapped else 1) if api.varlen else 0,
        given=given,
        causal_given=causal_given,
        mask=mask,
        splits=_splits(p, api, swapped, heads, rows, keys, units),
        forced=p.append > 0 or p.paged,
        packed_q=api.varlen and not swapped,
        key_lengths=_key_lengths(p, api),
    )


def _api(p: Problem) -> Api:
    """Group mode is varlen, with a cache too; in batch mode a cache, and a number of splits, is ``mha_fwd_kvcache``."""
    if p.direction is Direction.BWD:
        return Api.VARLEN_BWD if p.mode is Mode.GROUP else Api.BWD
    if p.mode is Mode.GROUP:
        return Api.VARLEN_FWD
    counted = p.splits > 0 and not p.dropout
    return Api.KVCACHE if counted or p.kv_cache.kind is not CacheKind.NONE else Api.FWD


def _seqlen_k(p: Problem, api: Api) -> int:
    """``seqlen_k`` of the host: in ``mha_fwd_kvcache`` the rows of the cache, or the keys of a block table's row."""
    if api is not Api.KVCACHE:
        return p.seqlen_k
    return max(1, pages_of(p.seqlen_k, p.kv_cache.page)) * p.kv_cache.page if p.paged else p.cache_rows


def _key_lengths(p: Problem, api: Api) -> KeyLengths:
    """A linear cache of packed queries goes by lengths, which the kernels take and no upstream API passes that way."""
    if api.varlen and p.kv_cache.kind is not CacheKind.LINEAR:
        return KeyLengths.STARTS
    return KeyLengths.COMMON if p.kv_cache.kind is CacheKind.NONE else KeyLengths.LENGTHS


def _open(given: Bounds, *, dropped: bool) -> bool:
    """Whether the caller's windows are unlimited before clipping, which is when varlen and kvcache look at them."""
    return given.left < 0 and (given.right < 0 or (given.right == 0 and dropped))


def _splits(p: Problem, api: Api, swapped: bool, heads: int, rows: int, keys: int, units: int) -> Splits:
    if p.splits:
        return Splits(p.splits, f"--splits {p.splits}")
    if api.backward:
        return Splits(1, "backward")
    if p.dropout:
        return Splits(1, "dropout: keys are not split")
    if api is Api.VARLEN_FWD and not swapped:
        return Splits(1, "packed sequences: keys are split for one query row of grouped heads alone")
    return upstreams_splits(batch=p.batch, heads=heads, rows=rows, keys=keys, hdim=p.hdim, multiprocessors=units)


def next_multiple(value: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``value``."""
    return -(-value // step) * step
