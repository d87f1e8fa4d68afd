"""The operator's abilities: rules K945 to K952, whose texts are in ``rules.json``."""

from __future__ import annotations

import json
from importlib.resources import files

from fmha_cli import api, plugin
from fmha_openvino.kernels import Precision, precision_of

PLAIN, TOP_LEFT = plugin.MaskForm.PLAIN, plugin.MaskForm.TOP_LEFT


def _nothing(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if TOP_LEFT in plugin.mask_forms(p) or plugin.rows_check(p, kernel, device) or not plugin.sees_nothing(p):
        return None
    text = f"mask {p.mask.text()} for {p.seqlen_q} queries and {p.seqlen_k} keys hides every key from some query"
    return plugin.Refusal(text, f"--seqlen-k {p.seqlen_q}")


def _tensor(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if p.bias is plugin.Bias.NONE:
        return None
    shared = p.bias.shape(1, 2, p.seqlen_q, 1) == (1, 1, 1, 1)  # by heads and rows, which are one axis
    if p.heads != p.kv_heads and not shared:
        return plugin.Refusal(f"a bias and {p.kv_heads} key heads for {p.heads} heads", f"--kv-heads {p.heads}")
    if PLAIN in plugin.mask_forms(p):
        return None
    return plugin.Refusal(f"mask {p.mask.text()} and a bias would share the operator's one mask input", "--mask none")


def _half(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if precision_of(kernel) is not Precision.F16 or p.dtype is not plugin.DType.FP16:
        return None
    text = '"f16" rounds scores and weights, to bf16 without AVX512_FP16; without AVX-512 it has no effect'
    return plugin.Refusal(text, "--dtype bf16")


def _scores(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    if precision_of(kernel) is not Precision.BF16 or p.dtype is not plugin.DType.BF16:
        return None
    return plugin.Refusal(
        "the bf16 kernel rounds scores and weights to bf16, or without AVX-512 is the f32 kernel", "--dtype fp32"
    )


def own_mask(p: api.Problem) -> bool:
    """Whether the operator gets the mask as its flag, or there is no mask."""
    found = plugin.mask_forms(p)
    return PLAIN in found or (TOP_LEFT in found and p.heads == p.kv_heads)


def _release(p: api.Problem, kernel: api.KernelSpec, device: plugin.DeviceFacts) -> plugin.Refusal | None:
    return plugin.release_refusal("openvino", RELEASES["facts"], {"mask": not own_mask(p)})


RELEASES = json.loads(files("fmha_openvino").joinpath("releases.json").read_text("utf-8"))
"""The releases that were tried, and the differences of older ones from today's."""
_TEXTS = files("fmha_openvino").joinpath("rules.json").read_text("utf-8")
_CHECKS = (_nothing, _tensor, plugin.full_cache_check, plugin.alibi_check, plugin.rows_check, _half, _scores, _release)
RULES = (*plugin.CORE_RULES, *plugin.rules_from(_TEXTS, {f"K{945 + n}": check for n, check in enumerate(_CHECKS)}))
