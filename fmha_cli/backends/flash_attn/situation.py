"""``FlashSituation``: what upstream's host code derives from a problem before it picks a kernel, computed once per problem.

Source: ``csrc/flash_attn/flash_api.cpp`` ``mha_fwd``, ``mha_varlen_fwd``, ``mha_fwd_kvcache``, ``mha_bwd``,
``mha_varlen_bwd``, ``set_params_fprop``; ``num_splits_heuristic`` and ``set_params_splitkv`` for how many pieces the keys
are split into. Names follow its variables and parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from fmha_cli.backends.cuda.mask_bounds import UNLIMITED, Bounds, bounds_of
from fmha_cli.backends.cuda.units import multiprocessors
from fmha_cli.backends.flash_attn.mask_bounds import Clipped, clip_bounds
from fmha_cli.backends.flash_attn.tiles import EVEN_MN_HDIM, bucket, split_traits
from fmha_cli.backends.gpu.arithmetic import Splits, split_heuristic
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.flash_attn.traits import MAX_SPLITS
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import Alibi, CacheKind, Direction, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.tensors import table_width

BLOCKS_PER_MULTIPROCESSOR = 2
"""``set_params_splitkv`` doubles the multiprocessors, "to hard-code the fact that we're using 128 threads per block"."""


def upstreams_splits(*, batch: int, heads: int, rows: int, keys: int, hdim: int, multiprocessors: int) -> Splits:
    """The count that ``set_params_splitkv`` chooses when the caller gives none.

    Args:
        heads: query heads, after the exchange of head groups and query rows if there is one.
        rows: query rows, after the same exchange.
        keys: ``max_seqlen_k``: the cache's capacity, or the longest sequence.
    """
    step, keys_per_block = split_traits(hdim).tile
    blocks = batch * heads * -(-rows // step)
    slots = multiprocessors * BLOCKS_PER_MULTIPROCESSOR
    key_blocks = -(-keys // keys_per_block)
    count = heuristic(blocks, slots, key_blocks, MAX_SPLITS)
    return Splits(count, f"upstream's heuristic: {blocks} blocks of {step} rows on {slots} slots")


def heuristic(blocks: int, slots: int, key_blocks: int, most: int) -> int:
    """The smallest eligible count that is efficient enough (:func:`split_heuristic`).

    A count is eligible when it shortens the longest piece. With 64 key blocks, for example, 12 splits are really 11.
    """
    counts = range(1, min(most, slots, key_blocks) + 1)
    return split_heuristic(blocks, slots, (n for n in counts if _eligible(n, key_blocks)))


def _eligible(count: int, key_blocks: int) -> bool:
    return count == 1 or -(-key_blocks // count) != -(-key_blocks // (count - 1))


ROUND_ROWS = 128
"""The shapes of scratch tensors round rows of queries and keys up to a multiple of this."""


class FlashApi(StrEnum):
    """The function of ``flash_api.cpp`` that a problem corresponds to."""

    FWD = "mha_fwd"
    VARLEN_FWD = "mha_varlen_fwd"
    KVCACHE = "mha_fwd_kvcache"
    BWD = "mha_bwd"
    VARLEN_BWD = "mha_varlen_bwd"

    @property
    def varlen(self) -> bool:
        return self in (FlashApi.VARLEN_FWD, FlashApi.VARLEN_BWD)

    @property
    def backward(self) -> bool:
        return self in (FlashApi.BWD, FlashApi.VARLEN_BWD)


class KeyLengths(StrEnum):
    """The content of ``params.cu_seqlens_k``."""

    COMMON = "common"
    """Nothing (null): every sequence has ``seqlen_k`` keys."""
    STARTS = "starts"
    """The first key of each sequence and the end of the last: ``batch + 1`` numbers (``is_seqlens_k_cumulative``).
    With pages only their differences count."""
    LENGTHS = "lengths"
    """Keys of each sequence before append, left padding included. Sequences are one batch stride apart."""


@dataclass(frozen=True)
class FlashSituation:
    """One problem on one device, in upstream's words.

    Attributes:
        multiprocessors: ``get_num_sm``.
        counted: where the number of multiprocessors comes from, in words.
        swapped: ``seqlenq_ngroups_swapped``: with one query row, the query heads of a group are taken as rows.
        groups: query heads for each key/value head before that exchange.
        heads: query heads after the exchange.
        seqlen_q: query rows after the exchange; in group mode those of the longest sequence.
        seqlen_k: ``params.seqlen_k``: the longest sequence, or in batch mode with a cache the cache's capacity.
        total_q: rows of the packed queries after the exchange; 0 unless varlen.
        given: mask bounds from the bottom-right corner as the caller passes them; None if they cannot express the mask.
        causal_given: the caller passes ``causal`` and no window.
        mask: bounds after clipping and filling, and ``params.is_causal``.
        splits: ``num_splits``; 1 where upstream leaves it at 0.
        forced: ``force_split_kernel``.
        packed_q: ``params.cu_seqlens_q`` is not null.
        key_lengths: what ``params.cu_seqlens_k`` holds.
    """

    problem: Problem
    device: DeviceFacts
    multiprocessors: int
    counted: str
    api: FlashApi
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
        """``head_size_rounded``, which equals the bucket."""
        return next_multiple(self.problem.hdim, 32 if self.problem.hdim <= 128 else 64)

    @property
    def bucket(self) -> int | None:
        """``kHeadDim`` of the kernels that ``HEADDIM_SWITCH`` selects; None above the largest."""
        return bucket(self.problem.hdim)

    @property
    def fills_bucket(self) -> bool:
        """``is_even_K`` of the launch templates: the head dim equals its bucket's."""
        return self.problem.hdim == self.bucket

    @property
    def causal_dropped(self) -> bool:
        """Whether the caller's causal mask was dropped because it hides nothing from one query row."""
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
        """Whether the host launches any kernel.

        Where it does not, it fills the outputs itself (``flash_api.cpp``: "we have an empty tensor"): O = 0 and
        LSE = inf without keys, dK = dV = 0 without query rows.

        ``mha_fwd_kvcache`` always launches. Without keys and lengths, and with one split, its kernel may read past the
        tensors, so this tool launches nothing in that case.
        """
        if self.api.backward:
            return self.seqlen_q > 0
        safe = self.key_lengths is KeyLengths.LENGTHS or self.splits.count > 1
        return self.seqlen_k > 0 or (self.api is FlashApi.KVCACHE and safe)

    @property
    def dq_parts(self) -> int:
        """Copies of the dQ accumulator: ``nsplits`` of a deterministic backward pass, else 1."""
        if not self.problem.deterministic:
            return 1
        blocks = self.problem.batch * self.problem.heads
        return (self.multiprocessors + blocks - 1) // blocks

    def fills_tiles(self, rows: int, keys: int) -> bool:
        """``is_even_MN`` of the launch templates: both lengths are multiples of the tile.

        Args:
            rows: ``kBlockM``.
            keys: ``kBlockN``.
        """
        unpacked = not self.packed_q and self.key_lengths is KeyLengths.COMMON
        return unpacked and self.seqlen_k % keys == 0 and self.seqlen_q % rows == 0

    @property
    def takes_even_k(self) -> bool:
        """Whether upstream passes ``Is_even_K``: the head dim fills its bucket, and there is no ALiBi."""
        return self.fills_bucket and self.problem.alibi is Alibi.NONE

    def takes_even_mn(self, tile: tuple[int, ...]) -> bool:
        """Whether upstream passes ``Is_even_MN`` to a kernel with this tile (the ``auto kernel =`` lines).

        It does when both lengths fill the tile, ``Is_even_K`` holds, the head dim is at most 128, and there is neither
        a window nor anything to append.
        """
        rows, keys = tile
        plain = self.takes_even_k and self.mask_key is not MaskKey.WINDOW and not self.problem.append
        return plain and self.problem.hdim <= EVEN_MN_HDIM and self.fills_tiles(rows, keys)


@lru_cache(maxsize=64)
def situation_of(problem: Problem, device: DeviceFacts) -> FlashSituation:
    """The situation of a problem on a device. Every problem has one; rules say which problems upstream refuses."""
    p, api = problem, _api(problem)
    units, counted = multiprocessors(device)
    rows, keys = max(p.query_lengths(), default=0), _seqlen_k(p, api)
    given = bounds_of(p)
    causal_given = given == Bounds(UNLIMITED, 0)
    one_row = rows == 1 and p.alibi is Alibi.NONE and not api.backward
    mask = clip_bounds(given or Bounds(), keys, drop_causal=one_row and causal_given)
    unmasked = mask.unlimited if api is FlashApi.FWD else given is None or _open(given, dropped=one_row)
    swapped = one_row and p.heads > p.kv_heads and unmasked and not p.dropout and min(p.query_lengths()) == 1
    groups = p.heads // p.kv_heads
    heads, rows = (p.kv_heads, groups) if swapped else (p.heads, rows)
    return FlashSituation(
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
        forced=p.append > 0 or p.paged or p.cache_batch_idx is not None,
        packed_q=api.varlen and not swapped,
        key_lengths=_key_lengths(p, api),
    )


def _api(p: Problem) -> FlashApi:
    """The API for a problem.

    Group mode is varlen, even with a cache. In batch mode a cache or a given number of splits means
    ``mha_fwd_kvcache``.
    """
    if p.direction is Direction.BWD:
        return FlashApi.VARLEN_BWD if p.mode is Mode.GROUP else FlashApi.BWD
    if p.mode is Mode.GROUP:
        return FlashApi.VARLEN_FWD
    counted = p.splits > 0 and not p.dropout
    return FlashApi.KVCACHE if counted or p.kv_cache.kind is not CacheKind.NONE else FlashApi.FWD


def _seqlen_k(p: Problem, api: FlashApi) -> int:
    """The host's ``seqlen_k``: in ``mha_fwd_kvcache`` the rows of the cache, or the keys of a block table's row."""
    if api is not FlashApi.KVCACHE:
        return p.seqlen_k
    return table_width(p) * p.kv_cache.page if p.paged else p.cache_rows


def _key_lengths(p: Problem, api: FlashApi) -> KeyLengths:
    """The content of ``params.cu_seqlens_k``.

    With packed queries and a linear cache it holds lengths. The kernels accept that, but no upstream API passes it.
    """
    if api.varlen and p.kv_cache.kind is not CacheKind.LINEAR:
        return KeyLengths.STARTS
    return KeyLengths.COMMON if p.kv_cache.kind is CacheKind.NONE else KeyLengths.LENGTHS


def _open(given: Bounds, *, dropped: bool) -> bool:
    """Whether the caller's bounds are unlimited before clipping, when the varlen and kvcache APIs test them."""
    return given.left < 0 and (given.right < 0 or (given.right == 0 and dropped))


def _splits(p: Problem, api: FlashApi, swapped: bool, heads: int, rows: int, keys: int, units: int) -> Splits:
    if p.splits:
        return Splits(p.splits, f"--splits {p.splits}")
    if api.backward:
        return Splits(1, "backward")
    if p.dropout:
        return Splits(1, "dropout: keys are not split")
    if api is FlashApi.VARLEN_FWD and not swapped:
        return Splits(1, "packed sequences: keys are split only for one query row of grouped heads")
    return upstreams_splits(batch=p.batch, heads=heads, rows=rows, keys=keys, hdim=p.hdim, multiprocessors=units)
