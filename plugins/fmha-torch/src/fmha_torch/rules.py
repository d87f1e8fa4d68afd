"""The refusals of PyTorch's kernels by the limits of ``limits.json``, which also has the rules' texts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fmha_cli import api, plugin
from fmha_torch.kernels import Limits, Masking, TorchAlgorithm, limits_at, table

OURS = ("K900", "K901", "K906", "K910", "K911")
"""Rules of this plugin about what it can express or trusts. The others are PyTorch's own, and are compared with it."""


def flag_of(p: api.Problem) -> bool:
    """Whether the mask is what ``is_causal`` means: top-left, or bottom-right where both are one."""
    kind = p.mask.kind
    return kind is plugin.MaskKind.CAUSAL_TL or (kind is plugin.MaskKind.CAUSAL and p.seqlen_q == p.seqlen_k)


def refusals(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Iterator[tuple[str, str, str | None]]:
    """(rule, text, hint) of all that is against a kernel, which its limits and ``how`` it is masked describe."""
    mask, dtype, backward = f"mask {p.mask.text()}", p.dtype.value, p.direction.backward
    if how is Masking.CAUSAL and not flag_of(p) and p.mask.kind is not plugin.MaskKind.NONE:
        yield "K900", f"{mask}: is_causal is the top-left triangle", "--mask causal-tl"
    window = p.mask.align.value == "bottom_right" and min(p.mask.left or 0, p.mask.right or 0) >= 0
    if how is Masking.WINDOW and not window:
        yield "K900", f"{mask}: window_size of varlen_attn is bottom-right", "--mask causal"
    if limits.same_hdim and p.hdim != p.hdim_v:
        yield "K902", f"hdim {p.hdim} and hdim-v {p.hdim_v} differ", f"--hdim-v {p.hdim}"
    step = limits.multiple.get(dtype, 1)
    odd = [(name, d) for name, d in (("hdim", p.hdim), ("hdim-v", p.hdim_v)) if d % step]
    if odd:
        hint = " and ".join(f"--{name} {-(-d // step) * step}" for name, d in odd)
        yield "K903", f"{odd[0][0]} {odd[0][1]} is not a multiple of {step}", hint
    if limits.square and flag_of(p) and p.seqlen_q != p.seqlen_k:
        yield "K904", f"is_causal, {p.seqlen_q} queries and {p.seqlen_k} keys", f"--seqlen-k {p.seqlen_q}"
    packed = p.mode is plugin.Mode.GROUP  # for flex_attention, packed sequences are one
    rows, keys = (sum(p.query_lengths()), sum(p.key_lengths())) if packed else (p.seqlen_q, p.seqlen_k)
    if not limits.empty and (rows == 0 or keys < limits.least_keys):
        enough = f"--seqlen {max(rows, 1)} and --seqlen-k {max(keys, limits.least_keys)}"
        yield "K905", f"{rows} queries and {keys} keys", None if packed else enough
    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    if p.lse and limits.lse_of is not None and dtype not in limits.lse_of:
        yield "K906", f"the LSE in {dtype} comes from rough exponentials", "--dtype fp32"
    elif p.lse and limits.lse_of is not None and any(p.mask.blinds(*of, p.sink) for of in lengths):
        yield "K906", "a row sees no key: its LSE is -inf, and PyTorch returns 0", "drop --lse"
    if max(p.batch, p.heads) > limits.most_heads:
        yield "K907", f"{max(p.batch, p.heads)} sequences or heads, at most {limits.most_heads}", None
    if backward and "bwd" not in limits.directions:
        yield "K908", f"{limits.way.value} has no backward pass on {limits.place.upper()}", "--direction fwd"
    most = limits.backward_to.get(arch, limits.max_hdim)
    if backward and most < p.hdim <= limits.max_hdim - 32:
        yield "K909", f"hdim {p.hdim}: no backward pass on {arch}", f"--hdim {most}"
    full = p.dtype is plugin.DType.FP32
    if limits.same_mask_dtype and how is Masking.TENSOR and p.alibi is not plugin.Alibi.NONE and not full:
        yield "K910", f"ALiBi as a mask in {dtype}", "--dtype fp32"
    parts = p.heads // p.kv_heads * -(-p.seqlen_q // 32)
    if backward and 0 < limits.sums < parts and not full:
        yield "K911", f"dK and dV: {parts} parts are added in {dtype}", "--dtype fp32"


def _asked(id: str, p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    of = kernel.algorithm
    assert isinstance(of, TorchAlgorithm)
    found = refusals(p, kernel.arch, of.masking, limits_at(kernel.arch, of.way))
    return next((plugin.Refusal(text, hint) for rule, text, hint in found if rule == id), None)


OWN_RULES = tuple(
    plugin.Rule(id, row["text"], partial(_asked, id), row["help"], row["source"], plugin.Severity[row["severity"]])
    for id, row in table()["rules"].items()
)
RULES = (*(rule for rule in plugin.CORE_RULES if rule is not plugin.OWN_V_RULE), *OWN_RULES)


def discord(p: api.Problem, forward: api.KernelSpec, backward: api.KernelSpec) -> tuple[api.Reason, ...]:
    """Autograd's backward pass belongs to the forward pass that it recorded."""
    text = "the forward kernel that fits is another one than autograd would record"
    return () if forward.algorithm == backward.algorithm else (api.Reason("K901", text, "--direction bwd"),)
