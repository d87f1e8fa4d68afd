"""What the operators can do: rules K930 to K936, whose texts are in ``rules.json``."""

from __future__ import annotations

from importlib.resources import files

from fmha_cli import api
from fmha_onnxruntime.kernels import Op, op_of

Form = api.MaskForm


def native(p: api.Problem, op: Op) -> bool:
    """Whether the operator has the mask itself, without a tensor that holds it."""
    found = api.mask_forms(p)
    if op is Op.MHA:
        return Form.PLAIN in found or (Form.TOP_LEFT in found and p.seqlen_k <= p.seqlen_q)
    if op is Op.GQA:
        return bool(found & {Form.BOTTOM_RIGHT, Form.WINDOW})
    own = {Form.PLAIN, Form.TOP_LEFT} if op is Op.ATTENTION_23 else {Form.PLAIN, Form.TOP_LEFT, Form.BOTTOM_RIGHT}
    return bool(found & own)


def _mask(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    op, shape = op_of(kernel), f"{p.seqlen_q} queries and {p.seqlen_k} keys"
    if op is Op.GQA and p.seqlen_q > min(p.key_lengths(), default=0):
        return api.Refusal(f"{shape}: the operator has a key for each query", f"--seqlen-k {p.seqlen_q}")
    if native(p, op) or (op.standard and p.bias is api.Bias.NONE):
        return None
    if op.standard:
        text = f"mask {p.mask.text()} and a bias would share the operator's one mask input"
        return api.Refusal(text, "--mask none")
    has = (
        "a causal mask, from the bottom right"
        if op is Op.GQA
        else "no mask, or a causal one for no more keys than queries"
    )
    return api.Refusal(
        f"mask {p.mask.text()} for {shape}: the operator has {has}", "--causal" if op is Op.GQA else "--mask none"
    )


def _dims(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    step, turned = 16 if p.rotary.dim else 8, p.rotary.dim
    if op_of(kernel) is not Op.GQA or (p.hdim % step == 0 and p.hdim_v == p.hdim and turned % 16 == 0):
        return None
    wanted = -(-p.hdim // step) * step
    text = f"hdim {p.hdim}, hdim-v {p.hdim_v}" + (f", rotary {turned}" if turned else "")
    return api.Refusal(text, f"--hdim {wanted} --hdim-v {wanted}" + (f" --rotary {wanted}" if turned else ""))


def _past(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if op_of(kernel) is not Op.GQA or 1 in (p.seqlen_q, p.batch) or max(p.key_lengths(), default=0) <= p.seqlen_q:
        return None
    return api.Refusal(f"{p.seqlen_q} queries of {p.batch} sequences come after earlier keys", "--batch 1")


def _cache(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if p.kv_cache.kind is api.CacheKind.PAGED:
        return api.Refusal("the operator reads no pages", "--kv-cache linear")
    if p.append and p.append != p.seqlen_q:
        text = f"{p.append} appended keys for {p.seqlen_q} queries: the operator appends one for each"
        return api.Refusal(text, f"--append {p.seqlen_q}")
    if p.append or len({*p.key_lengths()}) == 1:
        return None
    return api.Refusal("the operator multiplies by the unused rows of a cache", "--kv-cache off")


def _bias(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    return None if p.alibi is api.Alibi.NONE else api.Refusal("the operator has no ALiBi", "without --alibi")


def _rows(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if p.seqlen_q and min(p.key_lengths(), default=0):
        return None
    return api.Refusal(f"{p.seqlen_q} queries, {min(p.key_lengths(), default=0)} keys in a sequence", "--seqlen 1")


def _precision(p: api.Problem, kernel: api.KernelSpec, device: api.DeviceFacts) -> api.Refusal | None:
    if kernel.signature.dtype is not api.DType.FP16 or p.dtype is not api.DType.FP16:
        return None
    if op_of(kernel).standard:
        return api.Refusal("the operator keeps the scores and the weights of fp16 tensors in fp16", "--dtype fp32")
    return api.Refusal("the operator rounds the sinks to fp16", "--dtype fp32") if p.sink_logits else None


_TEXTS = files("fmha_onnxruntime").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_mask, _dims, _past, _cache, _bias, _rows, _precision)
RULES = (*api.CORE_RULES, *api.rules_from(_TEXTS, {f"K{930 + n}": check for n, check in enumerate(_CHECKS)}))
