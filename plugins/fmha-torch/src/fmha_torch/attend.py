"""A problem as one call of PyTorch: its mask as a tensor or as functions, and the call. Imported in the worker alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from fmha_cli import api, plugin
from fmha_torch.kernels import Masking, TorchAlgorithm, Way, table
from fmha_torch.rules import flag_of

Tensor = torch.Tensor
Attend = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""(q, k, v) -> (o, lse or None), each (batch, heads, rows, dim); packed sequences are one."""
FORCED = {
    Way.FLASH: SDPBackend.FLASH_ATTENTION, Way.MEM_EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
    Way.CUDNN: SDPBackend.CUDNN_ATTENTION, Way.MATH: SDPBackend.MATH,
}  # fmt: skip


class Places:
    """Where query i and key j are. Indices are tensors that broadcast, so this makes mask tensors and serves flex_attention."""

    def __init__(self, p: api.Problem, device: torch.device) -> None:
        self.mask, self.sink, self.packed = p.mask, p.sink, p.mode is plugin.Mode.GROUP
        self.masked = self.packed or p.mask.kind is not plugin.MaskKind.NONE
        rows, keys = p.query_lengths(), p.key_lengths()
        self._lengths: Any = p.seqlen_q, p.seqlen_k
        if self.packed:
            counts = [torch.tensor(n) for n in (rows, keys)]
            self._of_row, self._of_key = (torch.arange(p.batch).repeat_interleave(n).to(device) for n in counts)
            self._row, self._key = (torch.cat([torch.arange(m) for m in n]).to(device) for n in (rows, keys))
            self._lengths = [n.repeat_interleave(counts[0]).to(device) for n in counts]

    def sequence(self, b: Tensor, i: Tensor) -> Tensor:
        return self._of_row[i] if self.packed else b

    def row(self, i: Tensor) -> Tensor:
        return self._row[i] if self.packed else i

    def key(self, j: Tensor) -> Tensor:
        return self._key[j] if self.packed else j

    def lengths(self, i: Tensor) -> Any:
        return [n[i] for n in self._lengths] if self.packed else self._lengths

    def visible(self, i: Tensor, j: Tensor) -> Tensor:
        sees: Tensor = self.mask.visible(self.row(i), self.key(j), *self.lengths(i), self.sink)
        return sees & (self._of_row[i] == self._of_key[j]) if self.packed else sees

    def distance(self, i: Tensor, j: Tensor) -> Tensor:
        return torch.abs(self.row(i) + self.mask.delta(*self.lengths(i)) - self.key(j))


def mask_tensor(p: api.Problem, inputs: Mapping[str, Tensor]) -> Tensor:
    """The added tensor: bias, or ALiBi in fp32, and -inf where no key is seen. A bias alone is not copied."""
    q, places = inputs["q"], Places(p, inputs["q"].device)
    i, j = torch.arange(p.seqlen_q, device=q.device)[:, None], torch.arange(p.seqlen_k, device=q.device)[None]
    added = inputs.get("bias")
    if "alibi_slopes" in inputs:
        added = -inputs["alibi_slopes"].reshape(-1, p.heads, 1, 1) * places.distance(i, j)
    if added is None:
        added = torch.zeros(p.seqlen_q, p.seqlen_k, dtype=q.dtype, device=q.device)
    return added.masked_fill(~places.visible(i, j), float("-inf")) if places.masked else added


def flex_parts(p: api.Problem, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """``score_mod`` and ``block_mask``; bias and slopes are read where they are."""
    places, out = Places(p, inputs["q"].device), dict[str, Any]()
    bias, slopes, cap = inputs.get("bias"), inputs.get("alibi_slopes"), p.softcap

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap:
            s = cap * torch.tanh(s / cap)
        if bias is not None:
            plane, head = places.sequence(b, i) if bias.shape[0] > 1 else 0, h if bias.shape[1] > 1 else 0
            s = s + bias[plane, head, places.row(i) if bias.shape[2] > 1 else 0, places.key(j)]
        if slopes is not None:
            slope = slopes[h] if slopes.ndim == 1 else slopes[places.sequence(b, i), h]
            s = s - slope * places.distance(i, j)
        return s

    if cap or bias is not None or slopes is not None:
        out["score_mod"] = score
    if places.masked:
        sizes, device = (inputs["q"].shape[2], inputs["k"].shape[2]), str(inputs["q"].device)
        sees = lambda b, h, i, j: places.visible(i, j)  # noqa: E731 - short, and of this one use
        out["block_mask"] = create_block_mask(sees, None, None, *sizes, device=device)
    return out


def attend_of(p: api.Problem, kernel: api.KernelSpec, inputs: Mapping[str, Tensor]) -> Attend:
    """The call. A mask tensor is made now, so this is called again when tensors have other contents."""
    algorithm, gqa = kernel.algorithm, p.heads != p.kv_heads
    assert isinstance(algorithm, TorchAlgorithm)
    if algorithm.masking is Masking.SCORE_MOD:
        parts = {**flex_parts(p, inputs), "scale": p.scale, "enable_gqa": gqa}
        return _flex(parts, compiled=algorithm.way is Way.FLEX_COMPILED, lse=p.lse)
    if algorithm.way is Way.VARLEN:
        return _varlen(p)
    mask = mask_tensor(p, inputs) if algorithm.masking is Masking.TENSOR else None
    flag = mask is None and flag_of(p)
    if p.lse:
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return lambda q, k, v: operator(q, k, v, 0.0, flag, attn_mask=mask, scale=p.scale)
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": flag, "scale": p.scale, "enable_gqa": gqa}
    return lambda q, k, v: (scaled_dot_product_attention(q, k, v, **options), None)


def forced(kernel: api.KernelSpec) -> AbstractContextManager[None]:
    """Inside, SDPA takes this kernel or raises RuntimeError."""
    way = getattr(kernel.algorithm, "way", None)
    return sdpa_kernel([FORCED[way]]) if way in FORCED else nullcontext()


def _flex(options: Mapping[str, Any], *, compiled: bool, lse: bool) -> Attend:
    function: Any = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
        found = function(q, k, v, **options, return_aux=AuxRequest(lse=True) if lse else None)
        return (found[0], found[1].lse) if lse else (found, None)

    return attend


def _varlen(p: api.Problem) -> Attend:
    from torch.nn.attention.varlen import varlen_attn

    window = tuple(-1 if bound is None else bound for bound in (p.mask.left, p.mask.right))
    options: dict[str, Any] = {"scale": p.scale, "window_size": window}
    if torch.__version__ >= table()["torch"]["since"]["varlen_attn.enable_gqa"]:  # older releases lack the argument
        options["enable_gqa"] = p.heads != p.kv_heads

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
        ends = [torch.tensor([0, *n], device=q.device).cumsum(0).int() for n in (p.query_lengths(), p.key_lengths())]
        q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
        o: Any = varlen_attn(q, k, v, ends[0], ends[1], p.seqlen_q, p.seqlen_k, **options)
        return o.transpose(0, 1)[None], None

    return attend
