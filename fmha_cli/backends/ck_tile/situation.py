"""``Situation``: what upstream's dispatch reads of a problem and a device, computed once per problem.

Names follow the fields that the generated ``*_api.cpp`` files test (``a.seqlen_q``, ``a.max_seqlen_q`` ...), filled
as ``fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp`` fill them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from fmha_cli.arch import load_arch
from fmha_cli.backends.ck_tile.extents import long_views, wide_strides
from fmha_cli.backends.ck_tile.splits import Splits, splits_for
from fmha_cli.device import DeviceFacts
from fmha_cli.features import CacheKind, Mode
from fmha_cli.problem import Problem

UNITS, PRODUCTS = "compute_units", "products"
WAVE = "wavefront_size"
HALF_WAVE = 32
UNKNOWN_UNITS = 1
"""``DeviceFacts.units`` of a device of which only the architecture is known."""


@dataclass(frozen=True)
class Situation:
    """One problem on one device, in upstream's words.

    Attributes:
        multiprocessors: ``hipDeviceProp_t.multiProcessorCount``; ``counted`` says where it comes from.
        rows, keys: ``a.seqlen_q`` and ``a.seqlen_k``; totals in group mode, since the runner passes the packed shape.
        max_rows, max_keys: the longest sequence.
        key_lengths: whether key lengths are read from an array (``a.seqlen_k_ptr``).
        common_keys: the key length that all sequences share, else None.
        cached: ``use_kvcache`` of the runner.
        splits: the split count.
        wide_strides, long_views: what exceeds 32 bits, see ``extents``.
    """

    problem: Problem
    device: DeviceFacts
    multiprocessors: int
    counted: str
    group: bool
    rows: int
    keys: int
    max_rows: int
    max_keys: int
    key_lengths: bool
    common_keys: int | None
    cached: bool
    splits: Splits
    wide_strides: tuple[tuple[str, int], ...]
    long_views: tuple[tuple[str, int], ...]

    def blocks(self, rows_per_block: int) -> int:
        """``get_num_blocks`` of the generated API."""
        return self.problem.batch * self.problem.heads * -(-self.max_rows // rows_per_block)


@lru_cache(maxsize=16)
def situation_of(problem: Problem, device: DeviceFacts) -> Situation:
    """The situation of a problem on a device."""
    lengths_q, lengths_k = problem.query_lengths(), problem.key_lengths()
    group = problem.mode is Mode.GROUP
    max_rows, max_keys = max(lengths_q, default=0), max(lengths_k, default=0)
    units, counted = multiprocessors(device)
    cached = problem.kv_cache.kind is not CacheKind.NONE
    return Situation(
        problem=problem,
        device=device,
        multiprocessors=units,
        counted=counted,
        group=group,
        rows=sum(lengths_q) if group else max_rows,
        keys=sum(lengths_k) if group else max_keys,
        max_rows=max_rows,
        max_keys=max_keys,
        key_lengths=cached,
        common_keys=max_keys if len(set(lengths_k)) == 1 else None,
        cached=cached,
        splits=splits_for(problem, units),
        wide_strides=wide_strides(problem),
        long_views=long_views(problem),
    )


def multiprocessors(device: DeviceFacts) -> tuple[int, str]:
    """(what ``multiProcessorCount`` is on the device, how it is known).

    Without a device it is that of the architecture's product. HIP counts work-group processors, pairs of CUs, where
    a wave has 32 lanes.
    """
    if device.id != "none" and device.units > UNKNOWN_UNITS:
        return device.units, f"{device.units} multiprocessors of {device.id}"
    for name in device.archs:
        units, product = product_of(name)
        if units:
            count = units // 2 if wave_of(name) == HALF_WAVE else units
            return count, f"{count} multiprocessors assumed, those of the product {product}: no device known"
    return UNKNOWN_UNITS, "one multiprocessor assumed: neither device nor product known"


@cache
def product_of(name: str) -> tuple[int, str]:
    """(compute units, name) of the product that stands for an architecture; (0, "") where its facts state none."""
    facts = load_arch(name).facts
    if UNITS not in facts:
        return 0, ""
    units = int(facts[UNITS]["value"])
    return units, next(title for title, count in facts[PRODUCTS]["value"].items() if count == units)


@cache
def wave_of(name: str) -> int:
    """Lanes of a wave of an architecture, 0 where its facts do not say."""
    facts = load_arch(name).facts
    return int(facts[WAVE]["value"]) if WAVE in facts else 0
