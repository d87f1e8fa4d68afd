"""The call of upstream's host functions for a problem, derived from the problem and the places of its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Alibi, Bias, CacheKind, Direction, Layout, Mode, QScale
from fmha_cli.domain.mask import Align
from fmha_cli.domain.problem import Problem
from tests.support.referees.upstream_host.client import Call, Device, FakeTensor
from tests.support.referees.xformers_host.blocks import BOTTOM_RIGHT, TOP_LEFT

PLAIN = 1 << 40
"""Where the tensors of a problem without a plan begin; each has so much room."""
Tensors = Mapping[str, FakeTensor]
"""By upstream's names: query (B, M, H, D), key, value, grad_out, out, bias (B, H, M, N), logsumexp (B, H, rows).

Packed sequences have B = 1 and the rows of all of them; then also seqstart_q, seqstart_k and seqlen_k.
"""


@dataclass(frozen=True)
class NoCall(Exception):
    """Upstream's host functions have no argument for a feature."""

    what: str


def device_of(arch: str) -> Device:
    """A device with the facts of an architecture."""
    facts = load_arch(arch)
    major, minor = (int(part) for part in facts.fact("compute_capability"))
    return Device(major, minor, 1, 0, int(facts.fact("shared_per_block_optin")))


def call_of(p: Problem, device: Device, tensors: Tensors, *, lse: bool) -> Call:
    """The call for a problem.

    Args:
        lse: whether the forward pass is asked for the LSE.

    Raises:
        NoCall: upstream cannot express the problem.
    """
    for wrong, what in (
        (p.alibi is not Alibi.NONE, "ALiBi"),
        (p.softcap != 0, "softcap"),
        (p.sink_logits or p.sink > 0, "sinks"),
        (p.qscale is not QScale.NONE, "scales of quantised tensors"),
        (p.paged or p.append > 0 or p.rotary.dim > 0, "a cache with pages, appended keys or rotary embedding"),
        (p.direction is Direction.FWD_BWD, "both passes at once"),
        (p.dtype_out is not p.dtype, "an output of another type"),
        (p.dtype not in (DType.FP32, DType.FP16, DType.BF16), "the element type"),
        (p.mask.right not in (None, 0) or (p.mask.left is not None and p.mask.right is None), "the mask"),
        (p.mask.left is not None and p.mask.left < 0, "the mask"),
    ):
        if wrong:
            raise NoCall(what)
    align = TOP_LEFT if p.mask.align is Align.TOP_LEFT else BOTTOM_RIGHT
    arguments: dict[str, FakeTensor | int | float | bool] = {
        "custom_mask_type": 0 if p.mask.right is None else align,
        "dropout_p": p.dropout,
        "scale": p.scale,
        **{name: tensors[name] for name in ("query", "key", "value", "bias") if name in tensors},
    }
    if apart(p) and "bias" in tensors:
        # The check wants the shape of one sequence; the kernel goes from sequence to sequence by the first stride.
        q, k, bias = tensors["query"], tensors["key"], tensors["bias"]
        arguments["bias"] = replace(bias, sizes=(1, p.heads, q.sizes[1], k.sizes[1]))
    if p.mask.left is not None:
        arguments["window_size"] = p.mask.left + 1
    packed = "seqstart_q" in tensors
    if not p.direction.backward:
        arguments["compute_logsumexp"] = lse
        if packed:
            arguments |= {name: tensors[name] for name in ("seqstart_q", "seqstart_k", "seqlen_k") if name in tensors}
            arguments |= {"max_seqlen_q": p.seqlen_q, "max_seqlen_k": p.seqlen_k}
        return Call("forward", arguments, device, p.seed, p.offset)
    arguments |= {name: tensors[name] for name in ("grad_out", "out", "logsumexp")}
    arguments |= {"max_seqlen_q": p.seqlen_q, "max_seqlen_k": p.seqlen_k, "deterministic": p.deterministic}
    arguments["bias_requires_grad"] = p.dbias and p.bias is not Bias.NONE
    if packed:
        arguments |= {f"cu_seqlens_{side}": tensors[f"seqstart_{side}"] for side in "qk"}
    return Call("backward", arguments, device, p.seed, p.offset)


def apart(p: Problem) -> bool:
    """Whether the sequences of a problem need their starts."""
    return p.mode is Mode.GROUP or p.kv_cache.kind is CacheKind.LINEAR


def plain_tensors(p: Problem, step: int = 1) -> dict[str, FakeTensor]:
    """The tensors of a problem without gaps, where a user of upstream could have them.

    Grouped heads are repeated, since upstream's functions know no groups; one head of keys gets the stride 0. A cache is a
    copy, whose sequences are one batch, as are the queries of a batch over it.

    Args:
        step: pad both head dims to multiples of it, which makes every tensor a copy.
    """
    rows, keys = (sum(p.query_lengths()), sum(p.key_lengths())) if apart(p) else (p.seqlen_q, p.seqlen_k)
    if p.kv_cache.kind is CacheKind.LINEAR:
        keys = p.batch * p.cache_rows
    batch = 1 if apart(p) else p.batch
    cached = p.kv_cache.kind is CacheKind.LINEAR
    wide, wide_v = (-(-dim // step) * step for dim in (p.hdim, p.hdim_v))
    out = dict[str, FakeTensor]()

    def add(name: str, count: int, dim: int, heads: int, *, bhsd: bool) -> None:
        strides = (heads * count * dim, dim, count * dim, 1) if bhsd else (count * heads * dim, heads * dim, dim, 1)
        if heads < p.heads:
            strides = (*strides[:2], 0, 1)
        out[name] = FakeTensor(p.dtype.value, PLAIN * (len(out) + 1), (batch, count, p.heads, dim), strides)

    bhsd, bhsd_out = (layout is Layout.BHSD and step == 1 for layout in (p.layout, p.layout_out))
    repeated = cached or 1 < p.kv_heads < p.heads
    heads = 1 if p.kv_heads == 1 else p.heads
    add("query", rows, wide, p.heads, bhsd=bhsd and not (cached and p.mode is Mode.BATCH))
    add("key", keys, wide, heads, bhsd=bhsd and not repeated)
    add("value", keys, wide_v, heads, bhsd=bhsd and not repeated)
    if p.direction.backward:
        add("grad_out", rows, wide_v, p.heads, bhsd=bhsd_out)
        add("out", rows, wide_v, p.heads, bhsd=False)
        padded = -(-p.seqlen_q // 32) * 32
        lse = FakeTensor("fp32", PLAIN * 10, (p.batch, p.heads, padded), (p.heads * padded, padded, 1))
        out["logsumexp"] = lse
    if p.bias is not Bias.NONE:
        row, (_, planes, rows, _) = -(-p.seqlen_k // 8) * 8, p.bias.shape(p.batch, p.heads, p.seqlen_q, 1)
        out["bias"] = bias_view(p, PLAIN * 11, (planes * rows * row, rows * row, row, 1))
    return out | small_arrays(p, {"seqstart_q": PLAIN * 12, "seqstart_k": PLAIN * 13, "seqlen_k": PLAIN * 14})


def bias_view(p: Problem, address: int, strides: tuple[int, ...]) -> FakeTensor:
    """The bias as (B, H, M, N), broadcast by strides of 0, from its own shape's strides."""
    batch, head, row = (0 if letter == "1" else n for letter, n in zip(p.bias.value, strides[:3], strict=False))
    strides = batch if p.batch > 1 else 0, head if p.heads > 1 else 0, row if p.seqlen_q > 1 else strides[2], 1
    return FakeTensor(p.dtype.value, address, (p.batch, p.heads, p.seqlen_q, p.seqlen_k), strides)


def small_arrays(p: Problem, addresses: Mapping[str, int]) -> dict[str, FakeTensor]:
    """The starts of sequences, and the lengths of keys in a cache."""
    if not apart(p):
        return {}
    sizes = {"seqstart_q": p.batch + 1, "seqstart_k": p.batch + 1}
    sizes |= {"seqlen_k": p.batch} if p.kv_cache.kind is CacheKind.LINEAR else {}
    return {name: FakeTensor("int32", addresses[name], (size,), (1,)) for name, size in sizes.items()}
