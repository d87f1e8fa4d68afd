"""``CkSituation``: the values of a problem and a device that upstream's dispatch reads, computed once per problem.

Names follow the fields that the generated ``*_api.cpp`` files test (``a.seqlen_q``, ``a.max_seqlen_q`` ...). Values are
the ones that ``fmha_fwd_runner.hpp`` and ``fmha_bwd_runner.hpp`` assign.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

from fmha_cli.backends.ck_tile.splits import splits_for
from fmha_cli.backends.gpu.arithmetic import Splits
from fmha_cli.backends.gpu.devices import multiprocessors_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.features import CacheKind, Mode
from fmha_cli.domain.problem import Problem

UNITS, PRODUCTS = "compute_units", "products"
WAVE = "wavefront_size"
HALF_WAVE = 32


@dataclass(frozen=True)
class CkSituation:
    """One problem on one device, in upstream's terms.

    Attributes:
        multiprocessors: ``hipDeviceProp_t.multiProcessorCount``.
        counted: where ``multiprocessors`` comes from.
        rows, keys: ``a.seqlen_q`` and ``a.seqlen_k``; totals in group mode, since the runner passes the packed shape.
        max_rows, max_keys: lengths of the longest sequence.
        key_lengths: whether key lengths are read from an array (``a.seqlen_k_ptr``).
        common_keys: the key length that all sequences share, or None.
        cached: ``use_kvcache`` of the runner.
        splits: the split count.
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

    def blocks(self, rows_per_block: int) -> int:
        """``get_num_blocks`` of the generated API."""
        return self.problem.batch * self.problem.heads * -(-self.max_rows // rows_per_block)


@lru_cache(maxsize=16)
def situation_of(problem: Problem, device: DeviceFacts) -> CkSituation:
    """Compute the situation of a problem on a device."""
    lengths_q, lengths_k = problem.query_lengths(), problem.key_lengths()
    group = problem.mode is Mode.GROUP
    max_rows, max_keys = max(lengths_q, default=0), max(lengths_k, default=0)
    units, counted = multiprocessors_of(device, product_of)
    cached = problem.kv_cache.kind is not CacheKind.NONE
    return CkSituation(
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
    )


@cache
def product_of(name: str) -> tuple[int, str]:
    """(multiprocessors, name) of the product that represents an architecture; (0, "") if its facts state none.

    On architectures with 32-lane waves, HIP counts work-group processors, which are pairs of CUs.
    """
    facts = load_arch(name).facts
    if UNITS not in facts:
        return 0, ""
    units = int(facts[UNITS]["value"])
    title = next(title for title, count in facts[PRODUCTS]["value"].items() if count == units)
    return units // 2 if wave_of(name) == HALF_WAVE else units, title


@cache
def wave_of(name: str) -> int:
    """Lanes per wave on an architecture; 0 if its facts do not state it."""
    facts = load_arch(name).facts
    return int(facts[WAVE]["value"]) if WAVE in facts else 0
