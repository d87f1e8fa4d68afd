"""What the operators can do, as rules K930 to K938, found by running onnxruntime 1.32 (``docs/libraries.md``)."""

from __future__ import annotations

from enum import Enum

from fmha_cli import api
from fmha_onnxruntime.kernels import Op, OrtAlgorithm, Scores


class Form(Enum):
    """What a mask comes to for the lengths of a problem."""

    PLAIN = "every key is visible"
    TOP_LEFT = "causal, top-left aligned"
    BOTTOM_RIGHT = "causal, bottom-right aligned"
    WINDOW = "causal and bounded on the left, bottom-right aligned"
    OTHER = "other"


def forms(p: api.Problem) -> set[Form]:
    """Everything that the problem's mask comes to: with equal lengths, both alignments are one."""
    if p.visible_pairs() == p.dense_pairs():
        return {Form.PLAIN} | ({Form.BOTTOM_RIGHT} if p.seqlen_q == 1 else set())
    if p.mask.right != 0 or p.sink:
        return {Form.OTHER}
    square = all(q == k for q, k in zip(p.query_lengths(), p.key_lengths(), strict=True))
    top_left = p.mask.kind in (api.MaskKind.CAUSAL_TL, api.MaskKind.WINDOW_TL)
    if p.mask.left is None:
        return {Form.TOP_LEFT, Form.BOTTOM_RIGHT} if square else {Form.TOP_LEFT if top_left else Form.BOTTOM_RIGHT}
    return {Form.OTHER, Form.WINDOW} if p.mask.left >= 0 and (square or not top_left) else {Form.OTHER}


def op_of(kernel: api.KernelSpec) -> Op:
    assert isinstance(kernel.algorithm, OrtAlgorithm)
    return kernel.algorithm.op


def native(p: api.Problem, op: Op) -> bool:
    """Whether the operator has the mask itself, without a tensor that holds it."""
    found, lengths = forms(p), p.seqlen_k <= p.seqlen_q
    return {
        Op.MHA: Form.PLAIN in found or (Form.TOP_LEFT in found and lengths),
        Op.GQA: bool(found & {Form.BOTTOM_RIGHT, Form.WINDOW}),
        Op.ATTENTION_23: bool(found & {Form.PLAIN, Form.TOP_LEFT}),
        Op.ATTENTION_24: bool(found & {Form.PLAIN, Form.TOP_LEFT, Form.BOTTOM_RIGHT}),
    }[op]


def _mask(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    op = op_of(kernel)
    if native(p, op) or (op.standard and p.bias is api.Bias.NONE):
        return None
    if op.standard:
        return api.Refusal(f"mask {p.mask.text()} and a bias would have to share the operator's one mask input", "--bias none")
    has = {
        Op.MHA: "no mask, and a causal one from the top left for no more keys than queries",
        Op.GQA: "a causal mask from the bottom right, with or without a bound on the left",
    }
    return api.Refusal(f"mask {p.mask.text()} for {p.seqlen_q} x {p.seqlen_k}: the operator has {has[op]}", "--backend cpu")


def _dims(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if op_of(kernel) is not Op.GQA or (p.hdim % 8 == 0 and p.hdim_v == p.hdim):
        return None
    text = f"hdim {p.hdim} and hdim-v {p.hdim_v}: the operator takes one head dim, a multiple of 8"
    return api.Refusal(text, f"--hdim {-(-p.hdim // 8) * 8} --hdim-v {-(-p.hdim // 8) * 8}")


def _past(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    lengths = p.key_lengths()
    if op_of(kernel) is not Op.GQA or p.seqlen_q == 1 or p.batch == 1 or max(lengths, default=0) <= p.seqlen_q:
        return None
    return api.Refusal(f"batch {p.batch} with {p.seqlen_q} queries after earlier keys: the operator takes one sequence then", "--batch 1")


def _cache(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    op, kind = op_of(kernel), p.kv_cache.kind
    if kind is api.CacheKind.PAGED:
        return api.Refusal("the operator reads no pages", "--kv-cache linear")
    if kind is not api.CacheKind.LINEAR and (op is not Op.GQA or p.seqlen_q <= min(p.key_lengths(), default=0)):
        return None
    if op is Op.GQA and p.append == p.seqlen_q:
        return None
    if op is Op.ATTENTION_24 and len({*p.key_lengths()}) == 1:
        return None
    text = {
        Op.GQA: f"{p.append} appended keys for {p.seqlen_q} queries: the operator appends one for each",
        Op.ATTENTION_24: "the operator multiplies by the unused rows of a cache, which may hold anything",
    }
    return api.Refusal(text.get(op, "the operator has no cache"), f"--append {p.seqlen_q}" if op is Op.GQA else "--kv-cache off")


def _bias(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    return None if p.alibi is api.Alibi.NONE else api.Refusal("the operator has no ALiBi", "--alibi off")


def _rows(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if p.seqlen_q and min(p.key_lengths(), default=0):
        return None
    return api.Refusal(f"{p.seqlen_q} queries and {p.seqlen_k} keys: no operator takes a tensor without rows", "--seqlen 1")


def _scores(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    assert isinstance(kernel.algorithm, OrtAlgorithm)
    if kernel.algorithm.scores is not Scores.F16 or p.dtype is not api.DType.FP16:
        return None
    return api.Refusal("the operator keeps the scores and the weights of fp16 tensors in fp16", "--dtype fp32")


_SOURCE = "microsoft/onnxruntime 1.32.0, run by plugins/fmha-onnxruntime/tests/test_against_the_library.py"


def _rule(id: str, text: str, check: api.Check, help: str, severity: api.Severity = api.Severity.KIND) -> api.Rule:
    return api.Rule(id, text, check, help, _SOURCE, severity)


RULES: tuple[api.Rule, ...] = (
    *api.CORE_RULES,
    _rule(
        "K930",
        "the operator has the mask",
        _mask,
        "MultiHeadAttention's unidirectional leaves the keys behind the last query visible; GroupQueryAttention is always causal; "
        "ONNX's Attention takes other masks as a tensor, in the place of a bias.",
    ),
    _rule("K931", "GroupQueryAttention has one head dim, a multiple of 8", _dims, "The library says so itself.", api.Severity.SHAPE),
    _rule("K932", "GroupQueryAttention takes a batch of prompts, or of single queries", _past, "The library says so itself."),
    _rule("K933", "the operator has the cache", _cache, "Linear caches: appended to by GroupQueryAttention, read by Attention 24."),
    _rule("K934", "the operator has the bias", _bias, "A bias is a tensor of scores.", api.Severity.OPTION),
    _rule("K935", "there are queries and keys", _rows, "The operators refuse empty tensors.", api.Severity.SHAPE),
    _rule(
        "K936",
        "scores are kept in fp32",
        _scores,
        "ONNX's Attention computes fp16 in fp16 throughout (softmax_precision is not read), which goes beyond the budgets of "
        "docs/numerics.md. --kernel runs it all the same.",
        api.Severity.CHOICE,
    ),
)
