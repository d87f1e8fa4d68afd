"""What PyTorch's kernels refuse, as rules over the limits of ``limits.json``."""

from __future__ import annotations

from collections.abc import Callable

from fmha_cli import api
from fmha_torch.kernels import Limits, Masking, TorchAlgorithm, limits_of

_CHOICE = "pytorch aten/src/ATen/native/transformers/sdp_utils_cpp.h, sdp_utils_cpp.cpp, cuda/sdp_utils.cpp"


def blind(problem: api.Problem) -> bool:
    """Whether some row sees no key: then O = 0 and LSE = -inf."""
    mask, sink = problem.mask, problem.sink

    def sees(i: int, rows: int, keys: int) -> bool:
        return i in mask.seeing(rows, keys) or (sink > 0 and mask.visible(i, 0, rows, keys, sink))

    lengths = zip(problem.query_lengths(), problem.key_lengths(), strict=True)
    return any(rows and not (sees(0, rows, keys) and sees(rows - 1, rows, keys)) for rows, keys in lengths)


def _masking(problem: api.Problem, kernel: api.KernelSpec) -> api.Refusal | None:
    algorithm = kernel.algorithm
    assert isinstance(algorithm, TorchAlgorithm)
    kind, text = problem.mask.kind, problem.mask.text()
    if algorithm.masking is Masking.CAUSAL and not flag_of(problem) and kind is not api.MaskKind.NONE:
        return api.Refusal(f"mask {text}: is_causal is the top-left triangle only", "--mask causal-tl")
    one_sided = (problem.mask.left or 0) >= 0 and (problem.mask.right or 0) >= 0
    if algorithm.masking is Masking.WINDOW and (problem.mask.align.value == "top_left" or not one_sided):
        return api.Refusal(f"mask {text}: window_size of varlen_attn is bottom-right", "--mask causal")
    return None


def flag_of(problem: api.Problem) -> bool:
    """Whether the mask is the triangle that ``is_causal`` means: top-left, or bottom-right where both are one."""
    top_left = problem.mask.kind is api.MaskKind.CAUSAL_TL
    return top_left or (problem.mask.kind is api.MaskKind.CAUSAL and problem.seqlen_q == problem.seqlen_k)


def _hdims(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    if not limits.same_hdim or problem.hdim == problem.hdim_v:
        return None
    return api.Refusal(f"hdim {problem.hdim} and hdim-v {problem.hdim_v} differ", f"--hdim-v {problem.hdim}")


def _multiple(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    step = limits.multiple.get(problem.dtype.value, 1)
    bad = [(name, d) for name, d in (("hdim", problem.hdim), ("hdim-v", problem.hdim_v)) if d % step]
    if not bad:
        return None
    name, d = bad[0]
    return api.Refusal(f"{name} {d} is not divisible by {step}", f"--{name} {-(-d // step) * step}")


def _square(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    if not limits.square or not flag_of(problem) or problem.seqlen_q == problem.seqlen_k:
        return None
    text = f"is_causal with {problem.seqlen_q} queries and {problem.seqlen_k} keys"
    return api.Refusal(text, f"--seqlen-k {problem.seqlen_q}")


def _empty(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    lengths = (problem.seqlen_q, problem.seqlen_k)  # the rows of a packed problem are one sequence for flex_attention
    if problem.mode is api.Mode.GROUP:
        lengths = (sum(problem.query_lengths()), sum(problem.key_lengths()))
    least = max(1, limits.least_keys)
    if limits.empty or (lengths[0] > 0 and lengths[1] >= least):
        return None
    hint = "--seqlen 1" if not lengths[0] else f"--seqlen-k {least}"
    return api.Refusal(f"{lengths[0]} queries and {lengths[1]} keys", hint if problem.mode is api.Mode.BATCH else None)


def _blind_lse(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    if limits.blind_lse or not problem.lse or not blind(problem):
        return None
    return api.Refusal("the LSE of a row that sees no key is returned as 0, and must be -inf", "drop --lse")


def _heads(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    most = max(problem.batch, problem.heads)
    return api.Refusal(f"{most} sequences or heads, at most {limits.most_heads}") if most > limits.most_heads else None


def _backward(problem: api.Problem, limits: Limits) -> api.Refusal | None:
    if not problem.direction.backward or "bwd" in limits.directions:
        return None
    return api.Refusal(f"{limits.way.value} has no backward pass on the {limits.place.upper()}", "--direction fwd")


def _gap(problem: api.Problem, kernel: api.KernelSpec) -> api.Refusal | None:
    gap = limits_of(kernel).no_backward
    if gap is None or not problem.direction.backward or kernel.arch not in gap["archs"]:
        return None
    if not gap["above"] < problem.hdim <= gap["to"]:
        return None
    return api.Refusal(f"hdim {problem.hdim} has no backward pass on {kernel.arch}", f"--hdim {gap['above']}")


def _mask_dtype(problem: api.Problem, kernel: api.KernelSpec) -> api.Refusal | None:
    algorithm = kernel.algorithm
    assert isinstance(algorithm, TorchAlgorithm)
    plain = problem.alibi is api.Alibi.NONE or problem.dtype is api.DType.FP32
    if algorithm.masking is not Masking.TENSOR or plain or not limits_of(kernel).same_mask_dtype:
        return None
    return api.Refusal(f"ALiBi as a mask tensor in {problem.dtype.value} would round its distances", "--dtype fp32")


def discord(problem: api.Problem, forward: api.KernelSpec, backward: api.KernelSpec) -> tuple[api.Reason, ...]:
    """Autograd's backward pass belongs to the forward pass that it recorded."""
    if forward.algorithm == backward.algorithm:
        return ()
    text = f"autograd records {forward.algorithm} and the backward pass is that of {backward.algorithm}"
    return (api.Reason(PAIR.id, text, None, PAIR.severity),)


def _of_limits(check: Callable[[api.Problem, Limits], api.Refusal | None]) -> Callable[..., api.Refusal | None]:
    return lambda problem, kernel, device: check(problem, limits_of(kernel))


def _of_kernel(check: Callable[[api.Problem, api.KernelSpec], api.Refusal | None]) -> Callable[..., api.Refusal | None]:
    return lambda problem, kernel, device: check(problem, kernel)


OPTION, SHAPE = api.Severity.OPTION, api.Severity.SHAPE
MASKING = api.Rule(
    "K900", "the kernel can be told this mask", _of_kernel(_masking),
    "is_causal of scaled_dot_product_attention is the top-left triangle. Every other mask is a tensor or a function: take "
    "the kernel with masking=tensor or score_mod.", "torch.nn.functional.scaled_dot_product_attention, its documentation",
)  # fmt: skip
PAIR = api.Rule(
    "K901", "both passes are those of one kernel", lambda problem, kernel, device: None,
    "The backward pass of autograd uses what its own forward pass has kept.", "torch.autograd.grad",
)  # fmt: skip
LIMITS = (
    api.Rule("K902", "Q, K and V have one head dim", _of_limits(_hdims), "", f"{_CHOICE}: check_head_dim_size", SHAPE),
    api.Rule("K903", "the head dims have the alignment", _of_limits(_multiple), "", f"{_CHOICE}: alignment", SHAPE),
    api.Rule(
        "K904", "is_causal has as many queries as keys", _of_limits(_square), "",
        f"{_CHOICE}: check_flash_causal_non_square_seqlens", SHAPE,
    ),
    api.Rule("K905", "no sequence is too short", _of_limits(_empty), "", f"{_CHOICE}: check_nonzero_sequence_lengths", SHAPE),
    api.Rule(
        "K906", "the LSE of a row without keys is right", _of_limits(_blind_lse),
        "The LSE must be -inf where a row sees no key. A true finding about the library: docs/torch.md.",
        "run with torch 2.13.0: docs/torch.md, Findings", OPTION,
    ),
    api.Rule("K907", "the grid holds the sequences and heads", _of_limits(_heads), "", f"{_CHOICE}: check_cudnn_tensor_shapes", SHAPE),
    api.Rule(
        "K908", "the kernel has a backward pass", _of_limits(_backward),
        "flex_attention on the CPU is for inference: neither the eager form nor the compiled one has a backward pass.",
        "torch/nn/attention/flex_attention.py _validate_device; torch/_inductor/kernel/flex/flex_cpu.py",
    ),
    api.Rule("K909", "the head dim has a backward pass here", _of_kernel(_gap), "", f"{_CHOICE}: check_requires_grad_and_head_dim", SHAPE),
    api.Rule("K910", "the mask has Q's type", _of_kernel(_mask_dtype), "", "pytorch attention.cpp: pad_bias; kernel_forward.h: attn_bias"),
)  # fmt: skip
"""PyTorch's own limits: tests compare them with what PyTorch answers."""

RULES = tuple(rule for rule in api.CORE_RULES if rule is not api.OWN_V_RULE) + (MASKING, PAIR, *LIMITS)
