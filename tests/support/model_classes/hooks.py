"""Attention that a class does without an attention function: seen in the matrix products and the softmax of a tiny model on the CPU.

A product whose last two dims are the number of tokens twice is taken for scores; the softmax that follows tells what was done to them.
The scale is the slope of the logits over the product, so a class that scales Q before the product has the scale 1.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fmha_cli.oracle.fills import standard_slopes

SEQLEN = 24
"""Tokens of the prompt."""

_PRODUCTS = ("matmul", "__matmul__", "bmm", "baddbmm", "einsum", "__rmatmul__")
_LEAST = 4
"""Tokens; fewer are not told from heads or experts."""


@dataclass(frozen=True)
class Call:
    """One attention call; ``seen`` has the number of keys that each query sees. ``other``: further work that no flag
    expresses; empty for none.
    """

    heads: int
    kv_heads: int
    hdim: int
    hdim_v: int
    scale: float
    softcap: float
    sink_logits: bool
    alibi: bool
    seen: tuple[int, ...]
    other: str = ""


class NotRecorded(Exception):
    """The class cannot be run so."""


class Watch(TorchFunctionMode):
    """Notes each softmax over scores of some tokens over themselves, and each call of a function of torch that has one inside.

    Attributes:
        found: logits, and the operands of the product before them, or the name of torch's function.
        values: columns of what the weights were multiplied with, call by call.
        places: file and class of the modules in which they were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last: tuple[Any, Any] | None = None
        self.found: list[tuple[Any, ...]] = []
        self.values: dict[int, int] = {}
        self.places: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _PRODUCTS and torch.is_tensor(out) and out.dim() > 2:
            operands = [one for one in (*args, *kwargs.values()) if torch.is_tensor(one)][-2:]
            if self.found and len(self.found) - 1 not in self.values and _square(operands[0]):
                self.values[len(self.found) - 1] = out.shape[-1]
            elif _square(out):
                self.last = (operands[0].detach(), operands[1].detach())
        elif name == "softmax" and self.last is not None:
            logits = args[0] if args else kwargs["input"]
            if _square(logits):
                self._note(logits.detach(), *self.last)
                self.last = None
        elif name in ("scaled_dot_product_attention", "multi_head_attention_forward"):
            query, key = args[0], args[1] if len(args) > 1 else kwargs["key"]
            if query.shape[0 if name.startswith("multi") else -2] > 1:  # one query that pools a sequence is not a layer
                self._note(name, query.shape, key.shape)
        return out

    def _note(self, *what: Any) -> None:
        self.found.append(what)
        frame: Any = sys._getframe(2)
        while frame is not None:
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module) and type(owner).__module__.startswith("transformers.models"):
                self.places[place(owner)] = None
                return
            frame = frame.f_back


def place(module: Any) -> str:
    """File and class of a module."""
    cls = type(module)
    return f"{cls.__module__.removeprefix('transformers.').replace('.', '/')}.py, {cls.__name__}"


def _square(one: Any) -> bool:
    return torch.is_tensor(one) and one.dim() > 2 and one.shape[-1] == one.shape[-2] >= _LEAST


def calls_in(watch: Watch) -> list[Call]:
    """The calls that were seen, with their values. Raises NotRecorded: no flag expresses what is done to the scores."""
    named = [one for one in watch.found if isinstance(one[0], str)]
    if named:
        raise NotRecorded(f"scores that only {named[0][0]} of torch has")
    return [_call(*one, watch.values.get(at, 0)) for at, one in enumerate(watch.found)]


def _call(logits: Any, query: Any, key: Any, hdim_v: int) -> Call:
    tokens = logits.shape[-1]
    logits = logits.double().reshape(-1, tokens, tokens)
    hdim = query.shape[-1]
    query = query.double().reshape(-1, tokens, hdim)
    key = key.double()
    turned = key.shape[-1] == tokens and (hdim != tokens or key.shape[-2] == hdim)
    key = key.reshape(-1, *key.shape[-2:]) if turned else key.reshape(-1, tokens, hdim).transpose(-1, -2)
    heads = logits.shape[0]
    if query.shape[0] not in (1, heads) or heads % key.shape[0]:
        raise NotRecorded("scores that are not one product of Q and K for each head")
    groups = [size for size in range(heads, 0, -1) if heads % size == 0 and _repeated(key, size)]
    product = (query @ key.repeat_interleave(heads // key.shape[0], 0)).reshape(logits.shape)
    scale, alibi = _slope(logits, product, logits > -1e4)
    other, seen = seen_by(logits[None] > -1e4)
    return Call(
        heads=heads,
        kv_heads=heads // groups[0] if key.shape[0] == heads else key.shape[0] if query.shape[0] == heads else heads,
        hdim=hdim,
        hdim_v=hdim_v or hdim,
        scale=scale,
        softcap=0.0,
        sink_logits=False,
        alibi=alibi,
        seen=seen,
        other=other,
    )


def _repeated(key: Any, size: int) -> bool:
    """Whether each group of so many heads has one K."""
    return key.shape[0] % size == 0 and all(bool(torch.equal(one, key[h // size * size])) for h, one in enumerate(key))


def _slope(logits: Any, product: Any, open_: Any) -> tuple[float, bool]:
    """The scale, and whether the standard ALiBi slopes were added. Raises NotRecorded: something else was done."""
    heads, tokens = logits.shape[:2]
    at = torch.arange(tokens, dtype=torch.float64).expand(tokens, tokens)
    spread = uneven(product, open_)
    head = int(spread.square().sum((-1, -2)).argmax())
    flat = (spread[head], uneven(at, open_[head]), uneven(logits[head], open_[head]))
    table, answer = torch.stack([flat[0].flatten(), flat[1].flatten()], dim=1), flat[2].flatten()
    scale, slope = (float(one) for one in torch.linalg.lstsq(table, answer[:, None]).solution[:, 0])
    slopes = torch.from_numpy(standard_slopes(heads)).double()
    alibi = abs(slope) > 0.1 * float(slopes[head])
    rest = uneven(logits - scale * product - (slopes[:, None, None] * at if alibi else 0.0), open_)
    if float(rest.abs().max()) > 1e-3 * float(uneven(logits, open_).abs().max()):
        raise NotRecorded("scores that are more than the product of Q and K times one number")
    return scale, alibi


def uneven(one: Any, open_: Any) -> Any:
    """The deviation from each row's mean over its open keys; a softmax sees nothing else."""
    one = one.masked_fill(~open_, 0.0)
    return (one - one.sum(-1, keepdim=True) / open_.sum(-1, keepdim=True).clamp(min=1)).masked_fill(~open_, 0.0)


def seen_by(open_: Any) -> tuple[str, tuple[int, ...]]:
    """Where a mask differs from a window, and how many keys each query sees.

    Args:
        open_: booleans (batch, heads, queries, keys).
    """
    if not bool((open_ == open_[:1, :1]).all()):
        return "heads or sequences that see other keys", ()
    one = open_[0, 0]
    row, column = (torch.arange(size) for size in one.shape)
    far = row[:, None] - column[None, :]
    left, right = (int((sign * far)[one].max()) if bool(one.any()) else -1 for sign in (1, -1))
    band = (far <= left) & (-far <= right)
    even = right in (0, left) or left == right or bool(one.all())
    return "" if even and torch.equal(band, one) else "a mask that is no window", tuple(int(one_.sum()) for one_ in one)
