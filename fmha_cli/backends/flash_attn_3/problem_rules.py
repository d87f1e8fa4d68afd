"""Rules K653-K696 of FlashAttention-3: its kernels' needs of a problem. Their texts are data.

- K653-K667: what FlashAttention-3 cannot compute or express, whatever the kernel.
- K668-K671, K680, K681, K683: sizes. K684-K687, K696: appended keys.
- K672-K677, K682: what a kernel is compiled for.
- K688, K689, K694, K695: V inside K. K690-K693: backward passes.
- K678: a rule of order, which refuses nothing. K679: the device has no kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.backends.flash_attn_3.arguments import row_tiles
from fmha_cli.backends.flash_attn_3.backward_arguments import backward_instance
from fmha_cli.backends.flash_attn_3.backward_sizes import BackwardSizes
from fmha_cli.backends.flash_attn_3.kernel_rules import KERNEL_RULES
from fmha_cli.backends.flash_attn_3.situation import HDIMS, Fa3Situation, situation_of
from fmha_cli.backends.gpu.arithmetic import GRID_END, single
from fmha_cli.backends.gpu.conditions import next_multiple
from fmha_cli.backends.gpu.rule_rows import Found, conditions, refuse_if, together, unchecked_rules
from fmha_cli.codegen.flash_attn_3.facts import BYTES, NAME, pairs
from fmha_cli.codegen.flash_attn_3.instance import FORWARD, algorithm_of, forward_instance
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Alibi, Bias, Mode, QScale
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import (
    ANGLES_RULE,
    CACHE_ITEM_RULE,
    HDIM_RULE,
    LEFTPAD_RULE,
    OWN_V_RULE,
    SIGNATURE_RULE_IDS,
    Reason,
    Rule,
    Severity,
    core_rules,
)
from fmha_cli.domain.signature import MaskKey, Need
from fmha_cli.domain.signature_hints import positive_scale, unpacked, with_hdim, with_rows, with_signature

INT_END = 1 << 31
MOST_SPLITS = 256
LATENT_COLUMNS, LATENT_V = 64, (256, 512)
"""``q_v`` is only supported for head_size <= 64 and head_size_v >= 256, which is at most 512."""
BACKWARD_RULES = tuple(f"K{number}" for number in range(690, 694))
ORDER, NO_KERNELS = "K678", "K679"
_OWN = ("dtype", "dtype_out", "mask", "sink", "sink_logits", "bias", "dropout", "split", "qscale", "gqa")
"""Signature fields that rules of this backend judge."""
_SERVED = (HDIM_RULE, LEFTPAD_RULE, OWN_V_RULE, ANGLES_RULE, CACHE_ITEM_RULE)
SHARED_RULES = core_rules(*(SIGNATURE_RULE_IDS[field] for field in _OWN), *(rule.id for rule in _SERVED))


def _findings(s: Fa3Situation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    """The findings of each rule."""
    yield from _limits(s, kernel)
    yield from _latent(s)
    yield from _sizes(s, kernel)
    yield from _fit(s, kernel)
    yield from _backward(s, kernel)


def _limits(s: Fa3Situation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, have = s.problem, kernel.signature
    known = p.dtype in BYTES
    yield "K653", refuse_if(p.dtype is not have.dtype, dtype=p.dtype.value, have=have.dtype.value)
    out = DType.BF16 if p.dtype is DType.FP8_E4M3 else p.dtype
    yield "K654", refuse_if(known and p.dtype_out is not out, out=p.dtype_out.value, dtype=p.dtype.value, own=out.value)
    step = 16 if p.dtype is DType.FP8_E4M3 else 8
    sizes = ("mla-rope" if s.qv else "hdim", s.hdim), ("hdim-v", p.hdim_v)
    name, odd = next(((name, n) for name, n in sizes if n % step), ("", 0))
    other = None if p.v_in_k and name == "hdim-v" else with_hdim(p, next_multiple(odd, step), name)
    helps = _with_latent(p, step) if s.qv else other
    yield "K655", refuse_if(odd, name=name, columns=odd, step=step, help=helps)
    yield "K656", refuse_if(not s.qv and p.hdim > HDIMS[-1], hdim=p.hdim, most=HDIMS[-1], help=with_hdim(p, HDIMS[-1]))
    yield "K657", refuse_if(not (s.qv or _pair_known(p)), hdim=p.hdim, hdim_v=p.hdim_v)
    yield "K658", refuse_if(p.alibi is not Alibi.NONE)
    yield "K659", refuse_if(p.bias is not Bias.NONE, bias=p.bias.value)
    yield "K660", refuse_if(p.sink, sink=p.sink)
    yield "K661", refuse_if(p.sink_logits)
    yield "K662", refuse_if(p.dropout, dropout=p.dropout)
    scales = p.qscale is not QScale.NONE and not (p.dtype is DType.FP8_E4M3 and p.qscale is QScale.HEAD)
    yield "K663", refuse_if(scales, qscale=p.qscale.value, dtype=p.dtype.value)
    yield "K664", refuse_if(s.given is None, mask=p.mask.text(), bounds=p.mask.bounds_text())
    scale = single(p.scale)
    factor = single(scale / single(p.softcap)) if p.softcap else scale
    yield "K665", refuse_if(factor <= 0, scale=p.scale, help=positive_scale(p))
    backward = p.direction.backward
    yield "K666", refuse_if(backward and p.dtype is DType.FP8_E4M3)
    yield "K667", refuse_if(p.deterministic and backward and max(p.hdim, p.hdim_v) > HDIMS[-2], hdim=p.hdim)


def _latent(s: Fa3Situation) -> Iterator[tuple[str, Found]]:
    """What a call with ``q_v`` needs, and V inside K without one."""
    p = s.problem
    least, most = LATENT_V
    odd = s.hdim > LATENT_COLUMNS or not least <= p.hdim_v <= most
    yield "K688", refuse_if(s.qv and odd, rope=p.mla_rope, hdim_v=p.hdim_v, help=_with_latent(p, 8))
    yield "K689", refuse_if(s.qv and BYTES.get(p.dtype) == 1, dtype=p.dtype.value)
    yield "K694", refuse_if(p.v_in_k and not s.qv, rope=p.mla_rope, hdim_v=p.hdim_v)
    yield "K695", refuse_if(s.qv and p.append > 0 and p.rotary.dim > 0, dim=p.rotary.dim)


def _with_latent(p: Problem, step: int) -> str:
    """The hint for the nearest head dims of V inside K that upstream takes, in multiples of a step."""
    rope = min(next_multiple(p.mla_rope, step), LATENT_COLUMNS)
    least, most = LATENT_V
    hdim = rope + min(max(next_multiple(p.hdim_v, step), least), most)
    steps = [f"--mla-rope {rope}"] * (rope != p.mla_rope) + [f"--hdim {hdim}"] * (hdim != p.hdim)
    return " and ".join(steps)


def _pair_known(p: Problem) -> bool:
    """The checks of ``head_size_v``, and for fp8 the kernels that there are: upstream would read 64 columns of a wider V."""
    if p.hdim_v == p.hdim or p.hdim > HDIMS[-1]:
        return True
    if p.direction.backward:
        return p.hdim_v <= HDIMS[-1]
    if p.hdim <= 64:
        return p.hdim_v <= (64 if p.dtype is DType.FP8_E4M3 else 512)
    return 128 < p.hdim <= 192 and 96 < p.hdim_v <= 128


def _sizes(s: Fa3Situation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p = s.problem
    size = BYTES.get(p.dtype, 2)
    head = s.seqlen_k * (s.hdim + p.hdim_v) * size
    forward = kernel.family in FORWARD
    yield "K668", refuse_if(forward and head >= INT_END - (50 << 20), count=head)
    rows = p.heads * s.seqlen_q
    yield "K669", refuse_if(max(rows, s.seqlen_q * s.groups) * p.batch >= INT_END, count=rows * p.batch)
    tiles = 0
    if forward:
        tiles = row_tiles(forward_instance(kernel), s) * p.heads * p.batch
    yield "K670", refuse_if(tiles + s.multiprocessors >= INT_END, count=tiles)
    split = kernel.signature.split is Need.YES
    most = MOST_SPLITS - s.varlen  # the scheduler keeps them in 8 bits
    yield "K680", refuse_if(s.splits.count > most, count=s.splits.count, most=most)
    yield "K683", refuse_if(s.varlen and p.heads >= GRID_END, count=p.heads, end=GRID_END)
    wide = max(p.batch, 0 if s.varlen else p.heads * s.splits.count)
    yield "K681", refuse_if(split and wide >= GRID_END, count=wide, end=GRID_END)
    longest = max(s.seqlen_q, s.seqlen_k)
    yield "K671", refuse_if(longest >= 1 << 30, count=longest)


def _fit(s: Fa3Situation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    p, have, a = s.problem, kernel.signature, algorithm_of(kernel)
    other = s.hdims is not None and (have.hdim, have.hdim_v) != s.hdims
    want = s.hdims or (0, 0)
    names = {"d": want[0], "dv": want[1], "have": have.hdim, "have_v": have.hdim_v}
    known = (have.hdim, have.hdim_v) in pairs(BYTES.get(p.dtype, 2))
    helps = f"--hdim {have.hdim} and --hdim-v {have.hdim_v}{' instead of --mla-rope' * p.v_in_k}" if known else None
    yield "K672", refuse_if(other, **names, help=helps)
    masked = s.given is not None and have.mask is not s.mask
    given = p.mask.kind.value == have.mask.value  # a bound past every key is none
    helps = None if given else with_signature(p, "mask", have.mask.value)
    yield "K673", refuse_if(masked, mask=p.mask.text(), want=s.mask.value, have=have.mask.value, help=helps)
    lengths = "lengths of its own for each sequence" if a.varlen else "one length"
    yield "K674", refuse_if(a.varlen != s.varlen, kernel=lengths, help=_other_lengths(s))
    split = kernel.family in FORWARD and (have.split is Need.YES) != s.split
    parts = {"count": s.splits.count, "why": s.splits.why, "has": ("splits keys", "splits none")[s.split]}
    helps = None if s.hdims is None else "--splits 1" if s.split else "--splits 2"
    yield "K675", refuse_if(split, **parts, help=helps)
    odd = a.cluster > 1 and kernel.family in FORWARD and _odd_tiles(s, kernel)
    narrow = a.pack_gqa and s.groups == 1 and not (a.paged or have.split is Need.YES)
    yield (
        "K676",
        refuse_if(odd or narrow, what="tiles of rows are odd in number" if odd else "each key head has one query head"),
    )
    ways = ("by TMA, in whole tiles", "by cp.async, row by row")
    apart = p.paged and a.paged != s.paged
    yield "K682", refuse_if(apart, page=p.kv_cache.page, want=ways[s.paged], have=ways[a.paged])
    yield from _appending(s, a.tile)
    words = ("a part of K", "one product") if s.qv else ("a tensor of its own", "a second product (qv)")
    yield "K677", refuse_if(a.qv != s.qv, v=words[0], has=words[1])


def _other_lengths(s: Fa3Situation) -> str | None:
    """The hint for a problem that has one length where its sequences have their own, or the reverse."""
    p = s.problem
    if not s.varlen:
        return with_signature(p, "mode", Mode.GROUP.value)
    steps = [unpacked(p)] * s.packed_q + ["--kv-cache none"] * (not s.packed_k)
    return " and ".join(steps)


def _backward(s: Fa3Situation, kernel: KernelSpec) -> Iterator[tuple[str, Found]]:
    """What backward kernels need beyond the others."""
    if not kernel.family.backward:
        yield from ((id, None) for id in BACKWARD_RULES)
        return
    p, a, i = s.problem, algorithm_of(kernel), backward_instance(kernel)
    grouped = p.heads != p.kv_heads
    yield (
        "K690",
        refuse_if(
            a.gqa != grouped,
            have="grouped heads" if a.gqa else "a key head for each query head",
            heads=1 if a.gqa else p.heads,
            help=None if a.gqa and p.heads == 1 else "",
        ),
    )
    z = BackwardSizes.of(s, i)
    planes = (z.seqlen_q_rounded, p.heads), (z.seqlen_k_rounded, p.kv_heads if a.gqa else 0)
    strided = z.batch > 1  # the stride of a batch is a product of ints too
    count = max(rows * z.hdim * (heads if strided else min(heads, 1)) for rows, heads in planes)
    yield "K691", refuse_if(count >= INT_END, count=count)
    wide = max(p.heads, p.batch)
    yield "K692", refuse_if(wide >= GRID_END, count=wide, end=GRID_END)
    turns = max(z.swizzle(s), p.heads * p.batch) * z.key_tiles if s.launches else 0
    yield "K693", refuse_if(i.causal and turns >= INT_END, count=turns)


def _appending(s: Fa3Situation, tile: tuple[int, ...]) -> Iterator[tuple[str, Found]]:
    """What upstream checks about appended keys, and what its kernels do with them."""
    p = s.problem
    rotated = p.append > 0 and p.rotary.dim > 0
    yield "K684", refuse_if(p.append > 0 and s.seqlen_q > s.seqlen_k, rows=s.seqlen_q, keys=s.seqlen_k)
    yield "K685", refuse_if(p.append > 0 and _unwritten(s, tile[-1]))
    yield "K686", refuse_if(rotated and p.rotary.dim % 16, dim=p.rotary.dim)
    yield "K696", refuse_if(rotated and BYTES.get(p.dtype) == 1, dtype=p.dtype.value)
    apart = any(rows != p.append for rows in p.query_lengths())
    unmasked = s.mask is MaskKey.NONE and p.append > 1
    steps = [with_rows(p, p.append)] * apart + ["--mask causal"] * unmasked
    yield "K687", refuse_if(rotated and steps, append=p.append, help=" and ".join(steps))


def _unwritten(s: Fa3Situation, keys: int) -> bool:
    """Whether no block writes some of the new keys: a block writes those that its rows see (``get_n_block_k_new_min_max``)."""
    p = s.problem
    held = p.key_lengths() if p.cache_seqlens is None else p.cache_seqlens
    for rows, before in zip(p.query_lengths(), held, strict=True):
        first = before + p.append - rows - s.window.left if s.mask is MaskKey.WINDOW else 0
        if not rows or max(0, first) // keys * keys > before:
            return True
    return False


def _odd_tiles(s: Fa3Situation, kernel: KernelSpec) -> bool:
    a = algorithm_of(kernel)
    return -(-s.seqlen_q * (s.groups if a.pack_gqa else 1) // a.tile[0]) % 2 == 1


_IDS = [*(f"K{number}" for number in (*range(653, 678), *range(680, 690), *range(694, 697))), *BACKWARD_RULES]
CONDITIONS = conditions(NAME, together(_IDS, _findings))
"""Conditions on the problem."""
RULES: tuple[Rule, ...] = (
    *SHARED_RULES,
    *(condition.rule(situation_of) for condition in CONDITIONS),
    *unchecked_rules(NAME, (ORDER, NO_KERNELS)),
)
"""All rules about problems."""


def rules() -> tuple[Rule, ...]:
    """All rules about problems and kernels."""
    return (*RULES, *KERNEL_RULES)


def no_kernels(device: DeviceFacts) -> Reason:
    """The Reason for a device that FlashAttention-3 has no kernels for."""
    text = f"FlashAttention-3 has no kernels for {', '.join(device.archs) or 'this device'}"
    return Reason(NO_KERNELS, text, "--backend flash_attn", Severity.PLACE)
