"""A problem as one call of PyTorch: its mask as a tensor or as functions, and the call. Imported in the worker alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from fmha_cli import api
from fmha_torch.kernels import Masking, TorchAlgorithm, Way
from fmha_torch.rules import flag_of

Tensor = torch.Tensor
Attend = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""(q, k, v) -> (o, lse or None), each (batch, heads, rows, dim); one sequence of all rows where sequences are packed."""

FORCED = {
    Way.FLASH: SDPBackend.FLASH_ATTENTION,
    Way.MEM_EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
    Way.CUDNN: SDPBackend.CUDNN_ATTENTION,
    Way.MATH: SDPBackend.MATH,
}


class Places:
    """Where a pair (query i, key j) is: in which sequence, on which diagonal, and whether it is visible.

    Indices may be any tensors that broadcast, so the same code makes a mask tensor and serves flex_attention.
    """

    def __init__(self, problem: api.Problem, device: torch.device) -> None:
        self.problem, self.packed = problem, problem.mode is api.Mode.GROUP
        rows, keys = problem.query_lengths(), problem.key_lengths()
        shifts = [problem.mask.delta(*lengths) for lengths in zip(rows, keys, strict=True)]
        if self.packed:
            numbers = torch.arange(problem.batch, dtype=torch.int32)
            self._of_row, self._of_key = (numbers.repeat_interleave(torch.tensor(n)).to(device) for n in (rows, keys))
            self._row, self._key = (torch.cat([torch.arange(m) for m in n]).int().to(device) for n in (rows, keys))
            self._shift = torch.tensor(shifts, dtype=torch.int32).repeat_interleave(torch.tensor(rows)).to(device)
        else:
            self._shift = shifts[0]

    def row(self, i: Tensor) -> Tensor:
        """The number of a query in its sequence."""
        return self._row[i] if self.packed else i

    def key(self, j: Tensor) -> Tensor:
        """The number of a key in its sequence."""
        return self._key[j] if self.packed else j

    def sequence(self, b: Tensor, i: Tensor) -> Tensor:
        return self._of_row[i] if self.packed else b

    def diagonal(self, i: Tensor) -> Tensor:
        return self.row(i) + (self._shift[i] if self.packed else self._shift)

    @property
    def masked(self) -> bool:
        return self.packed or self.problem.mask.kind is not api.MaskKind.NONE

    def visible(self, i: Tensor, j: Tensor) -> Tensor:
        """The inequalities of ``fmha_cli.api.Mask``, and that both are of one sequence."""
        mask, key, diagonal = self.problem.mask, self.key(j), self.diagonal(i)
        sees = self._of_row[i] == self._of_key[j] if self.packed else key >= 0
        if mask.right is not None:
            sees = sees & (key <= diagonal + mask.right)
        if mask.left is not None:
            sees = sees & ((key >= diagonal - mask.left) | (key < self.problem.sink))
        return sees

    def distance(self, i: Tensor, j: Tensor) -> Tensor:
        """Of ALiBi."""
        return (self.diagonal(i) - self.key(j)).abs()


def mask_tensor(problem: api.Problem, inputs: Mapping[str, Tensor]) -> Tensor:
    """What is added to the scores: bias, ALiBi (in fp32, since distances do not fit into 8 bits) and -inf where nothing is seen.

    A bias without anything else is passed as it is, which is no copy.
    """
    q = inputs["q"]
    places = Places(problem, q.device)
    i = torch.arange(problem.seqlen_q, device=q.device)[:, None]
    j = torch.arange(problem.seqlen_k, device=q.device)[None]
    added = inputs.get("bias")
    if "alibi_slopes" in inputs:
        slopes = inputs["alibi_slopes"]
        slopes = (slopes if slopes.ndim == 2 else slopes[None])[:, :, None, None]
        added = -slopes * places.distance(i, j)
    if added is None:
        added = torch.zeros(problem.seqlen_q, problem.seqlen_k, dtype=q.dtype, device=q.device)
    return added.masked_fill(~places.visible(i, j), float("-inf")) if places.masked else added


def flex_parts(problem: api.Problem, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
    """``score_mod`` and ``block_mask`` of flex_attention; bias and slopes are read where they are."""
    from torch.nn.attention.flex_attention import create_block_mask

    places, out = Places(problem, inputs["q"].device), dict[str, Any]()
    bias, slopes, cap = inputs.get("bias"), inputs.get("alibi_slopes"), problem.softcap

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if cap:
            s = cap * torch.tanh(s / cap)
        if bias is not None:
            plane, head = places.sequence(b, i) if bias.shape[0] > 1 else 0, h if bias.shape[1] > 1 else 0
            s = s + bias[plane, head, places.row(i), places.key(j)]
        if slopes is not None:
            slope = slopes[h] if slopes.ndim == 1 else slopes[places.sequence(b, i), h]
            s = s - slope * places.distance(i, j)
        return s

    if cap or bias is not None or slopes is not None:
        out["score_mod"] = score
    if places.masked:
        rows, keys, device = inputs["q"].shape[2], inputs["k"].shape[2], inputs["q"].device
        mask = lambda b, h, i, j: places.visible(i, j)  # noqa: E731 - create_block_mask wants these arguments
        out["block_mask"] = create_block_mask(mask, None, None, rows, keys, device=device)
    return out


def attend_of(problem: api.Problem, kernel: api.KernelSpec, inputs: Mapping[str, Tensor]) -> Attend:
    """The call. Of inputs other than Q, K and V it reads what they hold now, so it is made anew after an upload."""
    algorithm, gqa = kernel.algorithm, problem.heads != problem.kv_heads
    assert isinstance(algorithm, TorchAlgorithm)
    if algorithm.masking is Masking.SCORE_MOD:
        return _flex(problem, algorithm.way is Way.FLEX_COMPILED, flex_parts(problem, inputs))
    if algorithm.way is Way.VARLEN:
        return _varlen(problem)
    mask = mask_tensor(problem, inputs) if algorithm.masking is Masking.TENSOR else None
    flag = mask is None and flag_of(problem)
    if problem.lse:
        operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        return lambda q, k, v: operator(q, k, v, 0.0, flag, attn_mask=mask, scale=problem.scale)
    options: dict[str, Any] = {"attn_mask": mask, "is_causal": flag, "scale": problem.scale, "enable_gqa": gqa}
    return lambda q, k, v: (scaled_dot_product_attention(q, k, v, **options), None)


def forced(kernel: api.KernelSpec) -> AbstractContextManager[None]:
    """Inside, SDPA may use this kernel alone; it raises RuntimeError where it cannot."""
    algorithm = kernel.algorithm
    assert isinstance(algorithm, TorchAlgorithm)
    backend = FORCED.get(algorithm.way)
    return nullcontext() if backend is None else sdpa_kernel([backend])


def _flex(problem: api.Problem, compiled: bool, parts: dict[str, Any]) -> Attend:
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    function: Any = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention
    options = {**parts, "scale": problem.scale, "enable_gqa": problem.heads != problem.kv_heads}
    if not problem.lse:
        return lambda q, k, v: (function(q, k, v, **options), None)

    def with_lse(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        o, aux = function(q, k, v, **options, return_aux=AuxRequest(lse=True))
        return o, aux.lse

    return with_lse


def _varlen(problem: api.Problem) -> Attend:
    from torch.nn.attention.varlen import varlen_attn

    mask, lengths = problem.mask, (problem.query_lengths(), problem.key_lengths())
    window = tuple(-1 if bound is None else bound for bound in (mask.left, mask.right))
    options = {"scale": problem.scale, "window_size": window, "enable_gqa": problem.heads != problem.kv_heads}

    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, None]:
        ends = [torch.tensor([0, *n], device=q.device).cumsum(0).int() for n in lengths]
        q, k, v = (x[0].transpose(0, 1) for x in (q, k, v))
        o = varlen_attn(q, k, v, *ends, problem.seqlen_q, problem.seqlen_k, **options)
        return o.transpose(0, 1)[None], None

    return attend
