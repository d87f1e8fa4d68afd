"""Other hand-written kernels with short host code, which use instructions differently from attention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from fmha_amdgpu_emu_tests.support.anchor_reference import attention, row_error
from fmha_amdgpu_emu_tests.support.assembly_kernels import IN_STEP, Argument, bits, run, slots

Array = npt.NDArray[Any]
BF16 = ml_dtypes.bfloat16
NOTHING = b""
"""An argument that is a null pointer."""


@dataclass(frozen=True)
class Other:
    """One launch.

    Attributes:
        title: code object and shape.
        limit: the largest permitted error of a row.
        call: launches the kernel; returns the error and the observations.
        known: the kind of finding that is the kernel's own fault, or "".
    """

    title: str
    limit: float
    call: Callable[[], tuple[float, dict[str, Any]]]
    known: str = ""


def layer_norm(rows: int, turn: int = 0) -> tuple[float, dict[str, Any]]:
    """``csrc/py_itfs_cu/asm_layernorm.cu`` ``layernorm2d_with_add_asm``: rows of 8192 bf16, two per work-group.

    The kernel sums the row but never uses the sum: it divides by the root of the mean square. It truncates to bf16. The
    sums of its second row are stored where other waves may still be reading those of the first, with no barrier
    between.
    """
    n, epsilon = 8192, 1e-5
    rng = np.random.default_rng(rows)
    given, residual = (rng.standard_normal((rows, n)).astype(BF16) for _ in range(2))
    weight, bias = (rng.standard_normal(n).astype(BF16) for _ in range(2))
    out, summed = (np.full((rows, n), np.nan, BF16) for _ in range(2))
    arguments: list[Argument] = [out, given, weight, bias, bits(epsilon), rows, n, summed, residual, NOTHING, NOTHING]
    observed = run(
        "gfx942/layer_norm.co",
        ((rows + 1) // 2, 1, 1),
        256,
        slots(arguments, 16),
        {"out": out, "residual_out": summed},
        {"in": given, "residual_in": residual, "weight": weight, "bias": bias},
        turn=turn,
    )
    x = given.astype(np.float64) + residual.astype(np.float64)
    normal = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    wanted = normal * weight.astype(np.float64) + bias.astype(np.float64)
    return max(row_error(out.astype(np.float64), wanted), row_error(summed.astype(np.float64), x)), observed


def topk_softmax(block: int, experts: int, count: int, tokens: int, renormalise: bool) -> tuple[float, dict[str, Any]]:
    """``csrc/py_itfs_cu/asm_topksoftmax.cu`` ``topk_softmax_asm``: the largest probabilities of each row, in order."""
    rng = np.random.default_rng([tokens, experts, count])
    gating = rng.standard_normal((tokens, experts)).astype(np.float32)
    chosen = np.full((tokens, count), -1, np.int32)
    weights = np.full((tokens, count), np.nan, np.float32)
    arguments: list[Argument] = [chosen, weights, gating, tokens, experts, count, int(renormalise), count * 4]
    observed = run(
        f"gfx942/topksoftmax/topksoftmax_{block}x{experts}x{count}.co",
        (-(-tokens // block), 1, 1),
        256,
        slots(arguments, 16),
        {"indices": chosen, "weights": weights},
        {"gating": gating},
    )
    p = np.exp(gating.astype(np.float64))
    p /= p.sum(-1, keepdims=True)
    wanted = np.argsort(-p, axis=-1)[:, :count]
    if not (chosen == wanted).all():
        return float("inf"), observed
    best = np.take_along_axis(p, wanted, -1)
    return row_error(weights, best / best.sum(-1, keepdims=True) if renormalise else best), observed


def gemm(arch: str, tile: int, m: int, n: int, k: int, split: int = 1) -> tuple[float, dict[str, Any]]:
    """``csrc/py_itfs_cu/asm_gemm_a16w16.cu`` ``gemm_a16w16_asm``: fp32 A @ B.T of bf16; atomics add the parts of K."""
    rng = np.random.default_rng([m, n, k])
    a, b = (rng.standard_normal((rows, k)).astype(BF16) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    numbers = [bits(1.0), bits(0.0), 0, 0, n * 4, 0, k * 2, 0, k * 2, 0, m, n, k, split]
    observed = run(
        f"{arch}/bf16gemm/bf16gemm_outf32_tn_{tile}x64_pf3.co",
        (n // 64, -(-m // tile), split),
        256,
        slots([out, NOTHING, a, b, *numbers], 16),
        {"out": out},
        {"a": a, "b": b},
    )
    return row_error(out, a.astype(np.float64) @ b.astype(np.float64).T), observed


def paged(
    arch: str, kernel: str, ratio: int, lengths: tuple[int, ...], kv_heads: int = 2
) -> tuple[float, dict[str, Any]]:
    """``csrc/py_itfs_cu/asm_pa.cu`` ``pa_fwd``: one query per sequence, pages of 16 keys in any order.

    K and V have 16 bits, or 8 bits with a scale for each key and head. The 16-bit kernels fetch the next page numbers,
    then 23 times K and V, and wait for all but 24 loads, which is one too many. The 8-bit kernels with 16 queries per
    head read LDS and multiply after ``s_waitcnt vmcnt(0)``, which does not cover LDS reads.
    """
    kind = np.float16 if "fp16" in kernel else BF16
    rng = np.random.default_rng([ratio, *lengths])
    d, page = 128, 16
    heads, most = ratio * kv_heads, max(-(-n // page) for n in lengths)
    pages = len(lengths) * most
    q = rng.standard_normal((len(lengths), heads, d)).astype(kind)
    shape = (pages, kv_heads, page, d)
    scaled = "pertoken" in kernel
    if "Int8" in kernel:
        k, v = (rng.integers(-100, 101, shape).astype(np.int8) for _ in range(2))
    else:
        fp8 = ml_dtypes.float8_e4m3fnuz if arch == "gfx942" else ml_dtypes.float8_e4m3fn
        k, v = (rng.standard_normal(shape).astype(fp8 if scaled else kind) for _ in range(2))
    unit = 0.01 if "Int8" in kernel else 1
    k_scale, v_scale = ((unit * rng.uniform(0.5, 1.5, shape[:3])).astype(np.float32) for _ in range(2))
    packed = 16 // k.itemsize
    k_paged = np.ascontiguousarray(k.reshape(pages, kv_heads, page, d // packed, packed).transpose(0, 1, 3, 2, 4))
    v_paged = np.ascontiguousarray(v.reshape(pages, kv_heads, page // packed, packed, d).transpose(0, 1, 2, 4, 3))
    table = rng.permutation(pages).astype(np.int32).reshape(len(lengths), most)
    context = np.array(lengths, np.int32)
    out = np.full_like(q, np.nan)
    scale = d**-0.5
    block, head = k_paged.strides[:2]
    numbers = [bits(scale * math.log2(math.e)), most, kv_heads, q.strides[0], block, head, ratio]
    scales: list[Argument] = [k_scale, v_scale] if scaled else [NOTHING, NOTHING]
    observed = run(
        f"{arch}/pa/{kernel}.co",
        (kv_heads, len(lengths), 1),
        256,
        slots([out, q, k_paged, v_paged, table, context, *scales, *numbers, NOTHING], 16),
        {"out": out},
        {
            "q": q,
            "k": k_paged,
            "v": v_paged,
            "k_scale": k_scale,
            "v_scale": v_scale,
            "table": table,
            "lengths": context,
        },
    )
    wide = [k.astype(np.float64), v.astype(np.float64)]
    if scaled:
        wide = [x * s[..., None] for x, s in zip(wide, (k_scale, v_scale), strict=True)]
    error = 0.0
    for b, n in enumerate(lengths):
        kb, vb = (x[table[b]].transpose(1, 0, 2, 3).reshape(kv_heads, -1, d)[:, :n] for x in wide)
        wanted, _, _ = attention(q[b, :, None].astype(np.float64), kb, vb, scale)
        error = max(error, row_error(out[b].astype(np.float64), wanted[:, 0]))
    return error, observed


FP32, ROUNDED, CUT = 1e-6, 1.5 * 2.0**-8, 3 * 2.0**-8
FP8 = INT8 = 0.1
"""Q and P are also rounded to 8 bits; wrongly laid out scales would give errors of 0.8 and more."""
_PAGED = (
    ("pa_bf16_noquant_gqa8_1tg_4w", ROUNDED),
    ("pa_bf16_pertokenFp8_gqa8_2tg_4w", FP8),
    ("pa_bf16_pertokenInt8_gqa8_2tg_4w", INT8),
)
_MORE_PAGED = (
    ("pa_bf16_noquant_gqa16_1tg_4w", ROUNDED),
    ("pa_fp16_noquant_gqa8_1tg_4w", 2.0**-9),
    ("pa_fp16_noquant_gqa16_1tg_4w", 2.0**-9),
    *(
        (f"pa_{dtype}_pertoken{kind}_gqa16_2tg_4w", limit)
        for dtype in ("fp16", "bf16")
        for kind, limit in (("Fp8", FP8), ("Int8", INT8))
    ),
)


def _cases(many: bool) -> tuple[Other, ...]:
    out = [
        Other("gfx942/layer_norm 4x8192", CUT, partial(layer_norm, 4, IN_STEP), "lds-race"),
        Other("gfx942/topksoftmax_4x128x8 37 rows", FP32, partial(topk_softmax, 4, 128, 8, 37, True)),
    ]
    for arch in ("gfx942", "gfx950"):
        for tile, m, n, k, split in (
            (48, 100, 128, 512, 2),
            *(((32, 64, 128, 256, 1), (64, 70, 64, 256, 4), (96, 10, 192, 192, 1)) if many else ()),
        ):
            title = f"{arch}/bf16gemm_outf32_tn_{tile}x64_pf3 {m}x{n}x{k}, K in {split}"
            out.append(Other(title, FP32, partial(gemm, arch, tile, m, n, k, split)))
        for kernel, limit in (*_PAGED, *(_MORE_PAGED if many else ())):
            lengths = (50, 16, 333)
            ratio = 16 if "gqa16" in kernel else 8
            known = "missing-wait" if "noquant" in kernel or ratio == 16 else ""
            title = f"{arch}/{kernel} contexts {' '.join(map(str, lengths))}"
            out.append(Other(title, limit, partial(paged, arch, kernel, ratio, lengths), known))
    if many:
        for block, experts, count in itertools.product((4, 12), (128, 256), (6, 8)):
            call = partial(topk_softmax, block, experts, count, 50, count == 6)
            out.append(Other(f"gfx942/topksoftmax_{block}x{experts}x{count} 50 rows", FP32, call))
    return tuple(out)


QUICK_OTHERS = _cases(many=False)
MANY_OTHERS = _cases(many=True)
