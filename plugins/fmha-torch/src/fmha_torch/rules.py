"""What PyTorch's kernels refuse: checks over the limits of ``limits.json``, which also has the rules' texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from fmha_cli import api
from fmha_torch.kernels import Limits, Masking, TorchAlgorithm, limits_at, table

Found = api.Refusal | None
Check = Callable[[api.Problem, str, Masking, Limits], Found]
"""(problem, architecture, how the kernel is masked, its limits) -> the refusal, if any."""


def blind(p: api.Problem) -> bool:
    """Whether some row sees no key: then O = 0 and LSE = -inf. The rows that see one are contiguous."""

    def sees(i: int, rows: int, keys: int) -> bool:
        return i in p.mask.seeing(rows, keys) or (p.sink > 0 and p.mask.visible(i, 0, rows, keys, p.sink))

    lengths = zip(p.query_lengths(), p.key_lengths(), strict=True)
    return any(rows and not (sees(0, rows, keys) and sees(rows - 1, rows, keys)) for rows, keys in lengths)


def flag_of(p: api.Problem) -> bool:
    """Whether the mask is what ``is_causal`` means: top-left, or bottom-right where both are one."""
    kind = p.mask.kind
    return kind is api.MaskKind.CAUSAL_TL or (kind is api.MaskKind.CAUSAL and p.seqlen_q == p.seqlen_k)


def _masking(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    text, bottom_right = p.mask.text(), p.mask.align.value == "bottom_right"
    if how is Masking.CAUSAL and not flag_of(p) and p.mask.kind is not api.MaskKind.NONE:
        return api.Refusal(f"mask {text}: is_causal is the top-left triangle", "--mask causal-tl")
    if how is Masking.WINDOW and not (bottom_right and min(p.mask.left or 0, p.mask.right or 0) >= 0):
        return api.Refusal(f"mask {text}: window_size of varlen_attn is bottom-right", "--mask causal")
    return None


def _same_hdim(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    if not limits.same_hdim or p.hdim == p.hdim_v:
        return None
    return api.Refusal(f"hdim {p.hdim} and hdim-v {p.hdim_v} differ", f"--hdim-v {p.hdim}")


def _multiple(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    step = limits.multiple.get(p.dtype.value, 1)
    bad = [(name, d) for name, d in (("hdim", p.hdim), ("hdim-v", p.hdim_v)) if d % step]
    hint = " and ".join(f"--{name} {-(-d // step) * step}" for name, d in bad)
    return api.Refusal(f"{bad[0][0]} {bad[0][1]} is no multiple of {step}", hint) if bad else None


def _square(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    if not limits.square or not flag_of(p) or p.seqlen_q == p.seqlen_k:
        return None
    return api.Refusal(f"is_causal, {p.seqlen_q} queries and {p.seqlen_k} keys", f"--seqlen-k {p.seqlen_q}")


def _lengths(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    packed = p.mode is api.Mode.GROUP  # for flex_attention, packed sequences are one
    rows, keys = (sum(p.query_lengths()), sum(p.key_lengths())) if packed else (p.seqlen_q, p.seqlen_k)
    if limits.empty or (rows > 0 and keys >= limits.least_keys):
        return None
    hint = None if packed else f"--seqlen {max(rows, 1)} and --seqlen-k {max(keys, limits.least_keys)}"
    return api.Refusal(f"{rows} queries and {keys} keys", hint)


def _lse(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    if limits.lse_of is None or not p.lse:
        return None
    if p.dtype.value not in limits.lse_of:
        return api.Refusal(f"the LSE in {p.dtype.value} comes from rough exponentials", "--dtype fp32")
    return api.Refusal("a row sees no key: its LSE is -inf, and PyTorch returns 0", "drop --lse") if blind(p) else None


def _heads(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    most = max(p.batch, p.heads)
    return api.Refusal(f"{most} sequences or heads, at most {limits.most_heads}") if most > limits.most_heads else None


def _backward(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    if not p.direction.backward or "bwd" in limits.directions:
        return None
    return api.Refusal(f"{limits.way.value} has no backward pass on {limits.place.upper()}", "--direction fwd")


def _gap(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    most = limits.backward_to.get(arch, limits.max_hdim)
    inside = p.direction.backward and most < p.hdim <= limits.max_hdim - 32  # above, dropout decides
    return api.Refusal(f"hdim {p.hdim}: no backward pass on {arch}", f"--hdim {most}") if inside else None


def _mask_dtype(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    same = p.alibi is api.Alibi.NONE or p.dtype is api.DType.FP32 or how is not Masking.TENSOR
    return None if same or not limits.same_mask_dtype else api.Refusal(f"ALiBi in {p.dtype.value}", "--dtype fp32")


def _sums(p: api.Problem, arch: str, how: Masking, limits: Limits) -> Found:
    parts = p.heads // p.kv_heads * -(-p.seqlen_q // 32)
    rough = p.direction.backward and 0 < limits.sums < parts and p.dtype is not api.DType.FP32
    return api.Refusal(f"dK and dV: {parts} parts are added in {p.dtype.value}", "--dtype fp32") if rough else None


CHECKS: Mapping[str, Check] = {
    "K900": _masking, "K901": lambda *kernel: None, "K902": _same_hdim, "K903": _multiple, "K904": _square, "K905": _lengths,
    "K906": _lse, "K907": _heads, "K908": _backward, "K909": _gap, "K910": _mask_dtype, "K911": _sums,
}  # fmt: skip
"""K901 is about pairs of kernels: ``discord`` finds it."""
OURS = ("K900", "K901", "K906", "K910", "K911")
"""Rules about what this plugin can say to PyTorch, or believes of it. The others are PyTorch's own, and are compared with it."""


def _asked(check: Check, p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> Found:
    assert isinstance(kernel.algorithm, TorchAlgorithm)
    return check(p, kernel.arch, kernel.algorithm.masking, limits_at(kernel.arch, kernel.algorithm.way))


def _rule(id: str, check: Check) -> api.Rule:
    row = table()["rules"][id]
    return api.Rule(id, row["text"], partial(_asked, check), row["help"], row["source"], api.Severity[row["severity"]])


OWN_RULES = tuple(_rule(id, check) for id, check in CHECKS.items())
RULES = (*(rule for rule in api.CORE_RULES if rule is not api.OWN_V_RULE), *OWN_RULES)


def discord(p: api.Problem, forward: api.KernelSpec, backward: api.KernelSpec) -> tuple[api.Reason, ...]:
    """Autograd's backward pass belongs to the forward pass that it recorded."""
    text = "the forward kernel that fits is another one than autograd would record"
    return () if forward.algorithm == backward.algorithm else (api.Reason("K901", text, "--direction bwd"),)
