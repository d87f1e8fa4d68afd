"""The attention of classes that call no attention function: seen in the matrix products and the softmax of a tiny model on the CPU.

A product whose last two dims are the prompt's length twice is taken for scores; the softmax that follows tells what was done to them.
The scale is the slope of the logits over the product, so a class that scales Q before the product has the scale 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import model_probe as probe
import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm", "einsum", "__rmatmul__")
_SOFTMAX = ("softmax",)
_LEAST_SLOPE, _CLOSE = 3e-3, 0.02


class _Watch(TorchFunctionMode):
    """Notes each softmax over scores, with the operands of the product before it."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length, self.last, self.found = length, None, []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in _PRODUCTS and torch.is_tensor(out) and out.shape[-2:] == (self.length, self.length):
            operands = [one for one in (*args, *(kwargs or {}).values()) if torch.is_tensor(one)][-2:]
            self.last = (operands[0].detach().double(), operands[1].detach().double())
        elif name in _SOFTMAX and self.last is not None:
            logits = args[0] if args else (kwargs or {})["input"]
            if logits.shape[-2:] == (self.length, self.length):
                self.found.append((logits.detach().double(), *self.last))
                self.last = None
        return out


def hooked(kind: str, members: Mapping[str, Any], model: type | None = None) -> list[probe.Call]:
    """The attention calls of one prompt. Raises NotRecorded: the class cannot be run so, or has no such softmax."""
    torch.manual_seed(0)
    try:
        config = probe.config_class(kind)(**members)
        config._attn_implementation = "eager"
        made = (model or probe.model_class(kind))(config).eval()
        for weight in made.parameters():
            torch.nn.init.normal_(weight, std=0.2)
        with torch.no_grad(), _Watch(probe.SEQLEN) as watch:
            made(input_ids=torch.arange(probe.SEQLEN)[None] % 90 + 3)
    except Exception as fault:
        raise probe.NotRecorded(f"{type(fault).__name__}: {str(fault)[:200]}") from fault
    return [_call(*one) for one in watch.found]


def _call(logits: Any, query: Any, key: Any) -> probe.Call:
    length = probe.SEQLEN
    logits = logits.reshape(-1, length, length)
    hdim = query.shape[-1]
    query = query.reshape(-1, length, hdim)
    key = (
        key.reshape(-1, *key.shape[-2:]) if key.shape[-1] == length else key.reshape(-1, length, hdim).transpose(-1, -2)
    )
    heads = logits.shape[0]
    kv_heads = key.shape[0] if query.shape[0] == heads else heads
    product = (query @ key.repeat_interleave(heads // key.shape[0], 0)).reshape(logits.shape)
    open_ = logits > -1e4
    seen = tuple(int(row.sum()) for row in open_[0])
    scale, alibi = _slope(logits, product, open_)
    return probe.Call(
        heads=heads,
        kv_heads=kv_heads,
        hdim=hdim,
        hdim_v=hdim,
        scale=scale,
        softcap=0.0,
        sink_logits=False,
        alibi=alibi,
        seen=seen,
    )


def _slope(logits: Any, product: Any, open_: Any) -> tuple[float, bool]:
    """The scale, and whether a bias that falls with the distance was added. Raises NotRecorded: something else was."""
    head, row = 0, probe.SEQLEN - 1
    at = torch.arange(probe.SEQLEN, dtype=torch.float64)
    table = torch.stack([product[head, row], at, torch.ones_like(at)], dim=1)[open_[head, row]]
    answer = torch.linalg.lstsq(table, logits[head, row][open_[head, row]][:, None])
    scale, slope, _ = (float(one) for one in answer.solution[:, 0])
    rest = table @ answer.solution[:, 0] - logits[head, row][open_[head, row]]
    if float(rest.abs().max()) > 1e-3 * float(logits[head, row][open_[head, row]].abs().max() + 1):
        raise probe.NotRecorded(
            "the logits are not the product times a scale, with a bias that falls with the distance"
        )
    return scale, abs(slope) > _LEAST_SLOPE


def close(calls: list[probe.Call], expected: float) -> list[probe.Call]:
    """The calls, with the expected scale in place of one that is within what a regression in single precision finds."""
    return [replace(call, scale=expected) if abs(call.scale / expected - 1) < _CLOSE else call for call in calls]
