"""``Fa3Situation``: what upstream's host code derives from a problem before it picks a kernel.

Source: ``hopper/flash_api.cpp`` ``mha_fwd``, ``set_params_fprop``, ``get_pagedkv_tma``, ``get_num_splits``, ``get_pack_gqa``;
``heuristics.h``; ``flash_fwd_launch_template.h`` ``run_mha_fwd_``. Names follow its variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from fmha_cli.backends.cuda.mask_bounds import UNLIMITED, Bounds, bounds_of
from fmha_cli.backends.cuda.units import multiprocessors
from fmha_cli.backends.flash_attn_3.heuristics import Sizes, num_splits_heuristic, should_pack_gqa
from fmha_cli.backends.gpu.arithmetic import Splits
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.codegen.flash_attn_3.facts import BYTES, Tile, tile_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import MaskKey
from fmha_cli.domain.tensors import table_width

HDIMS = (64, 96, 128, 192, 256)
"""``round_up_headdim``."""
PREPARED_BY_ONE = 992
"""``PREPARE_VARLEN_MAX_BATCHES_1CTA``."""
MAX_SPLITS = 128
"""The most splits that the heuristic returns. A caller may ask for 256."""


@dataclass(frozen=True)
class Window:
    """``params.window_size_left``, ``params.window_size_right`` and the mask of the templates."""

    left: int
    right: int
    mask: MaskKey


def normalise_window(given: Bounds, seqlen_q: int, seqlen_k: int, *, keeps_causal: bool) -> Window:
    """The bounds that reach the kernels.

    A bound past every key becomes unlimited, and an unlimited one the length less 1 in the end. Over one row a causal mask
    hides nothing; upstream then drops it unless its tile is the better one (``keeps_causal``).
    """
    causal = given == Bounds(UNLIMITED, 0)
    left = UNLIMITED if given.left >= seqlen_k - 1 else given.left
    right = UNLIMITED if causal or given.right >= seqlen_q - 1 else given.right
    if seqlen_q == 1 and left == right == UNLIMITED and not keeps_causal:
        causal = False
    right = 0 if causal else right
    open_ends = left < 0 and right < 0
    mask = MaskKey.CAUSAL if left < 0 and right == 0 else MaskKey.NONE if open_ends else MaskKey.WINDOW
    return Window(seqlen_k - 1 if left < 0 else left, seqlen_q - 1 if right < 0 else right, mask)


def second_product(problem: Problem) -> bool:
    """Whether the call gives ``q_v``: the scores are q * k + q_v * v.

    V is the first columns of K here, so K's further columns are upstream's ``k``, and Q's first columns are ``q_v``.
    """
    return problem.v_in_k and problem.direction.forward


def head_size(problem: Problem) -> int:
    """``head_size``: the columns of upstream's ``q`` and ``k``."""
    return problem.mla_rope if second_product(problem) else problem.hdim


def kernel_hdims(hdim: int, hdim_v: int, element_bytes: int) -> tuple[int, int] | None:
    """The head dims of the kernels that ``run_mha_fwd_constexpr`` takes; None above the largest."""
    held = next((n for n in HDIMS if hdim <= n), None)
    if held == 64 and element_bytes == 2:
        return 64, 512 if hdim_v > 256 else 256 if hdim_v > 64 else 64
    if held == 192:
        return 192, 128 if hdim_v <= 128 else 192
    return None if held is None else (held, held)


def backward_hdims(hdim: int, hdim_v: int) -> tuple[int, int] | None:
    """The head dims of the backward kernels, which hold Q and V alike (``head_size_rounded``); None above the largest."""
    held = next((n for n in HDIMS if max(hdim, hdim_v) <= n), None)
    return None if held is None else (held, held)


@dataclass(frozen=True)
class Fa3Situation:
    """One problem on one device, in upstream's words.

    Attributes:
        multiprocessors, counted: ``params.num_sm``, and where the number comes from.
        hdims: head dims of the kernels, or None.
        given: mask bounds from the bottom-right corner as the caller passes them; None if they cannot express the mask.
        seqlen_q, seqlen_k: of the longest sequence; with a cache its capacity.
        packed_q, packed_k: ``cu_seqlens_q`` and ``cu_seqlens_k`` are not null.
        varlen: ``Varlen``.
        paged_tma: ``params.pagedkv_tma``.
        splits: ``params.num_splits``.
        pack_gqa: ``PackGQA`` of the template.
    """

    problem: Problem
    device: DeviceFacts
    multiprocessors: int
    counted: str
    hdims: tuple[int, int] | None
    given: Bounds | None
    window: Window
    seqlen_q: int
    seqlen_k: int
    packed_q: bool
    packed_k: bool
    varlen: bool
    paged_tma: bool
    splits: Splits
    pack_gqa: bool

    @property
    def qv(self) -> bool:
        """``params.qv_ptr`` is not null, which makes ``HasQv``."""
        return second_product(self.problem)

    @property
    def hdim(self) -> int:
        """``params.d``."""
        return head_size(self.problem)

    @property
    def groups(self) -> int:
        return self.problem.heads // self.problem.kv_heads

    @property
    def mask(self) -> MaskKey:
        return self.window.mask

    @property
    def paged(self) -> bool:
        """``PagedKVNonTMA``."""
        return self.problem.paged and not self.paged_tma

    @property
    def split(self) -> bool:
        return self.splits.count > 1

    @property
    def tile(self) -> Tile | None:
        """The tile of the kernel."""
        if self.hdims is None:
            return None
        p = self.problem
        return tile_of(BYTES.get(p.dtype, 2), self.hdims, self.mask, paged=self.paged, softcap=p.softcap > 0)

    @property
    def cluster(self) -> int:
        """``ClusterM``: 2 where the instance exists and the tiles of rows are even in number."""
        p, size = self.problem, BYTES.get(self.problem.dtype, 2)
        if self.hdims is None or self.tile is None or p.direction.backward:
            return 1
        wide = self.hdims[0] >= 128 if size == 2 else self.hdims[0] == 192
        plain = self.mask is MaskKey.NONE and not (self.split or self.paged or self.varlen)
        rows = self.seqlen_q * (p.heads // p.kv_heads if self.pack_gqa else 1)
        return 2 if wide and plain and -(-rows // self.tile.rows) % 2 == 0 else 1

    @property
    def fixed_order(self) -> bool:
        """``Deterministic`` of a backward pass, whose 256 columns K667 refuses. A forward pass has no such switch."""
        return self.problem.deterministic and self.problem.direction.backward

    @property
    def total_q(self) -> int:
        """``seqlen_q`` of the launch template: rows of all sequences where Q is packed."""
        return sum(self.problem.query_lengths()) if self.packed_q else self.seqlen_q

    @property
    def batch_q(self) -> int:
        return 1 if self.packed_q else self.problem.batch

    @property
    def sorts(self) -> bool:
        """``params.varlen_sort_batches``."""
        return self.mask is not MaskKey.WINDOW

    @property
    def swizzles(self) -> bool:
        """``params.head_swizzle``."""
        return self.mask is not MaskKey.NONE

    @property
    def overlaps(self) -> bool:
        """``params.prepare_varlen_pdl``."""
        return self.varlen and self.problem.batch <= PREPARED_BY_ONE

    @property
    def launches(self) -> bool:
        """Whether the host launches any kernel. Where it does not, it fills the outputs itself."""
        return sum(self.problem.query_lengths()) > 0 and self.seqlen_k > 0


@lru_cache(maxsize=64)
def situation_of(problem: Problem, device: DeviceFacts) -> Fa3Situation:
    """The situation of a problem on a device. Every problem has one; rules say which problems upstream refuses."""
    p = problem
    hdim = head_size(p)
    units, counted = multiprocessors(device)
    rows, keys = max(p.query_lengths(), default=0), _seqlen_k(p)
    size = BYTES.get(p.dtype, 2)
    packed_q, cached = p.mode is Mode.GROUP, p.kv_cache.kind is not CacheKind.NONE
    packed_k = packed_q and not cached
    given = bounds_of(p)
    between = 64 < hdim <= 128
    keeps = (p.paged and between) or p.direction.backward
    window = normalise_window(given or Bounds(), rows, keys, keeps_causal=keeps)
    varlen = packed_q or cached
    hdims = backward_hdims(p.hdim, p.hdim_v) if p.direction.backward else kernel_hdims(hdim, p.hdim_v, size)
    sizes = Sizes(
        batch=1 if varlen else p.batch,
        rows=rows * (p.heads // p.kv_heads),
        keys=keys,
        kv_heads=p.kv_heads,
        head_bytes=keys * (hdim + p.hdim_v) * size,
        multiprocessors=units,
    )
    by_tma = hdims is not None and _by_tma(p, _tile(p, hdims, window.mask, False), sizes.rows)
    splits = Splits(1, "the head dim has no kernel")
    pack = False
    if p.direction.backward:
        splits = Splits(1, "a backward pass does not split keys")
    elif hdims is not None:
        tile = _tile(p, hdims, window.mask, p.paged and not by_tma)
        splits = _splits(p, tile, window, sizes)
        pack = _pack(p, tile, rows, by_tma, splits.count, varlen_q=packed_q)
    return Fa3Situation(
        problem=p,
        device=device,
        multiprocessors=units,
        counted=counted,
        hdims=hdims,
        given=given,
        window=window,
        seqlen_q=rows,
        seqlen_k=keys,
        packed_q=packed_q,
        packed_k=packed_k,
        varlen=varlen,
        paged_tma=by_tma,
        splits=splits,
        pack_gqa=pack,
    )


def _seqlen_k(p: Problem) -> int:
    if p.paged:
        return table_width(p) * p.kv_cache.page
    return p.seqlen_k if p.kv_cache.kind is CacheKind.NONE else p.cache_rows


def _tile(p: Problem, hdims: tuple[int, int], mask: MaskKey, paged: bool) -> Tile:
    """The tile by which the host decides, which is the kernel's, except that the host rounds ``hdim_v`` to 96, 128 or 192
    where the kernel holds 256 columns of V."""
    size = BYTES.get(p.dtype, 2)
    rounded = next((n for n in HDIMS if p.hdim_v <= n), 512)
    if hdims == (64, 256) and rounded != 256:
        hdims = (64, 64)
    return tile_of(size, hdims, mask, paged=paged, softcap=p.softcap > 0)


def _by_tma(p: Problem, tile: Tile, packed_rows: int) -> bool:
    """``get_pagedkv_tma``: pages of whole tiles of keys, and more rows than one tile."""
    if not p.paged or p.cache_leftpad is not None or p.append:
        return False
    return p.kv_cache.page % tile.keys == 0 and packed_rows > tile.rows


def _splits(p: Problem, tile: Tile, window: Window, sizes: Sizes) -> Splits:
    if p.splits:
        return Splits(p.splits, f"--splits {p.splits}")
    local = window.mask is MaskKey.WINDOW
    loaded = sizes.keys
    if local:
        loaded = max(0, min(sizes.keys, window.right + window.left + 1 + tile.rows))
    count = num_splits_heuristic(sizes, tile, loaded, masked=window.mask is not MaskKey.NONE, most=MAX_SPLITS)
    tiles = sizes.batch * sizes.kv_heads * -(-sizes.rows // tile.rows)
    return Splits(
        count, f"upstream's heuristic: {tiles} tiles of {tile.rows} rows on {sizes.multiprocessors} multiprocessors"
    )


def _pack(p: Problem, tile: Tile, rows: int, by_tma: bool, splits: int, *, varlen_q: bool) -> bool:
    """``get_pack_gqa``."""
    if (p.paged and not by_tma) or splits > 1:
        return True
    return p.heads != p.kv_heads and (varlen_q or should_pack_gqa(rows, p.heads // p.kv_heads, tile.rows))


def rounded_batch(batch: int) -> int:
    """``b_rounded``: the metadata of a launch have as many places for each number of a sequence."""
    return next_multiple(batch, 4)
