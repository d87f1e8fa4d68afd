"""Rows of a cache behind its keys, up to the end of the last tile: upstream multiplies V by weights of 0 there.

The weights of those keys are 0, and 0 times NaN or infinity is NaN. A cache may hold anything behind its keys, so the device gets zeros
there, and the host's rows are kept in a workspace and come back afterwards. ``cp.async`` needs none of this: it fills such rows with
zeros (``hopper/paged_kv.h``). TMA does so behind the end of the tensor alone (``mainloop_fwd_sm90_tma_gmma_ws.hpp`` ``load_V``).
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from fmha_cli.backends.flash_attn_3.scratch import KEPT, tails_of
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.arena_views import Array, Bytes, view
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.host_side import workspace
from fmha_cli.domain.features import Layout

Mask = npt.NDArray[np.bool_]


def before_upload(call: Call[Fa3Situation], arena: Bytes) -> None:
    """Keep the rows of V behind the keys, and put zeros in their place."""
    if tails := tails_of(call.situation, call.plan.main):
        rows, spare = _rows(call, arena), _spare(call, arena, tails)
        _kept(call, arena, rows[spare])[...] = rows[spare]
        rows[spare] = 0


def after_download(call: Call[Fa3Situation], arena: Bytes) -> None:
    """Put back what was behind the keys."""
    if tails := tails_of(call.situation, call.plan.main):
        rows, spare = _rows(call, arena), _spare(call, arena, tails)
        rows[spare] = _kept(call, arena, rows[spare])


def _rows(call: Call[Fa3Situation], arena: Bytes) -> Array:
    """A view of V: (pages or places of the cache, rows, heads, columns)."""
    p, held = call.problem, view(arena, call.tensor("k" if call.situation.qv else "v"))
    return (held if p.paged or p.layout_of("v") is Layout.BSHD else held.swapaxes(1, 2))[..., : p.hdim_v]


def _kept(call: Call[Fa3Situation], arena: Bytes, like: Array) -> Array:
    whole = workspace(call.tensors, arena, KEPT, (prod(like.shape),), like.dtype)
    return whole.reshape(like.shape)


def _spare(call: Call[Fa3Situation], arena: Bytes, tails: list[range]) -> Mask:
    """The rows of tails that hold no key of any sequence: sequences may share pages."""
    p, rows = call.problem, _rows(call, arena)
    out: Mask = np.zeros(rows.shape[:2], bool)
    held: Mask = np.zeros_like(out)
    table = view(arena, call.tensor("block_table")) if p.paged else None
    for b, tail in enumerate(tails):
        for mask, some in ((out, tail), (held, range(p.leftpads()[b], tail.start))):
            if table is None:
                mask[p.cache_item(b), some.start : some.stop] = True
            else:
                at = np.arange(some.start, some.stop)
                mask[table[b, at // p.kv_cache.page], at % p.kv_cache.page] = True
    return out & ~held
