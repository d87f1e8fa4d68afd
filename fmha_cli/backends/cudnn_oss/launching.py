"""The launch of a kernel, its parameters and scratch tensors, and LSE: ``execute`` of upstream's engines."""

from __future__ import annotations

from typing import Any

from fmha_cli.backends.cuda.scratch import Scratch
from fmha_cli.backends.cuda.tables import Expected
from fmha_cli.backends.cuda.tensor_maps import rows_map
from fmha_cli.backends.cuda.units import multiprocessors
from fmha_cli.backends.cudnn_oss.rules import tiles_of
from fmha_cli.backends.gpu.call import Call
from fmha_cli.backends.gpu.index import SmallSituation
from fmha_cli.backends.gpu.launching import Launch
from fmha_cli.codegen.cudnn_oss.facts import facts_of
from fmha_cli.codegen.cudnn_oss.params import BLOCKS, fast_divisor
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage

MAX, SUM, COUNTER = "softmax_max", "softmax_sum", "tile_counter"
COUNTS = "sm90"  # the engine whose blocks take tiles from a counter; elsewhere each tile has a block


def expect_exports(kernel: KernelSpec) -> Expected:
    f = facts_of(kernel)
    return Expected(symbol=f.symbol, block=BLOCKS[f.engine], separate=True, threads=f.threads, shared_bytes=f.shared)


def launch(kernel: KernelSpec, s: SmallSituation) -> Launch:
    f, (_, tiles) = facts_of(kernel), tiles_of(s.problem, kernel)
    blocks, cleared = (min(multiprocessors(s.device)[0], tiles), (COUNTER,)) if f.engine == COUNTS else (tiles, ())
    return Launch((blocks, 1, 1), (f.threads, 1, 1), f.shared, cleared=cleared)


def scratch(kernel: KernelSpec, s: SmallSituation) -> dict[str, Scratch]:
    """The largest score of each row and the sum of its exponentials, which kernels always write, and the counter."""
    rows = Scratch((s.problem.batch, s.problem.heads, s.problem.seqlen_q))
    return {MAX: rows, SUM: rows} | ({COUNTER: Scratch((1,))} if facts_of(kernel).engine == COUNTS else {})


def params_of(stage: Stage, call: Call[SmallSituation]) -> Any:
    p, f = call.problem, facts_of(stage.kernel)
    rows = scratch(stage.kernel, call.situation)[MAX]
    statistic = (len(rows.shape), rows.shape, rows.strides)
    sizes = (p.batch, p.heads, p.kv_heads, p.kv_heads, p.seqlen_q, p.seqlen_k, p.hdim, p.hdim_v)
    layout = {"element": f.element, "swizzle": "128B", "fill": "NAN_REQUEST_ZERO_FMA"}
    return BLOCKS[f.engine](
        attnDesc=(*sizes, *(p.heads // p.kv_heads,) * 3),
        attn_scale=p.scale,
        tensor_13=float("-inf"),
        d_max=call.address(MAX),
        desc_max=statistic,
        d_sum_exp=call.address(SUM),
        desc_sum_exp=statistic,
        **{f"tma_{name}": rows_map(call, name, (64, count), **layout) for name, count in f.box_rows.items()},
        **_schedule(stage.kernel, call),
    )


def after_download(call: Call[SmallSituation], arena: Any) -> None:
    """LSE is the largest score plus the logarithm of the sum."""
    import numpy as np

    from fmha_cli.backends.gpu.arena_views import view
    from fmha_cli.backends.gpu.host_side import workspace

    if "lse" in call.tensors:
        lse = view(arena, call.tensors["lse"])
        largest, total = (workspace(call.tensors, arena, name, lse.shape, np.dtype("f4")) for name in (MAX, SUM))
        lse[...] = largest + np.log(total)


def _schedule(kernel: KernelSpec, call: Call[SmallSituation]) -> dict[str, Any]:
    """Tiles in the order of batch, head and row from a counter, or as many heads side by side as have their keys and
    values in the L2 cache. Upstream counts their bytes in 32 bits."""
    p, f, (each, tiles) = call.problem, facts_of(kernel), tiles_of(call.problem, kernel)
    if f.engine == COUNTS:
        numbers = {"num_tiles": tiles, "d_tile_id_counter": call.address(COUNTER)}
        divisors = {"tiles_hr_div": p.heads * each, "tiles_r_div": each}
    else:
        head_bytes, heads = p.seqlen_k * (p.hdim + p.hdim_v) * 2 % 2**32, p.batch * p.heads
        fitting = f.l2_bytes // head_bytes if head_bytes else 1
        swizzle = min(1 << max(0, fitting.bit_length() - 1), heads)
        numbers = {"num_hb_quotient": heads // swizzle, "num_block": each, "total_blocks": tiles}
        divisors = {"num_head_divmod": p.heads, "l2_minor_divmod": swizzle, "l2_major_divmod": swizzle * each}
        divisors["l2_minor_residual_divmod"] = max(1, heads % swizzle)
    return {**numbers, **{name: fast_divisor(number) for name, number in divisors.items()}}
