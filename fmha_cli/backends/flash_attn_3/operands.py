"""Where upstream's q, qv, k, v, k_new and v_new lie: tensors of their own, or columns of one.

A call with ``q_v`` multiplies twice: the scores are q * k + q_v * v (``hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp`` ``HasQv``). Where V
is the first columns of K (``--mla-rope``), that is this tool's product of Q and K, so every operand is a view:

    columns of Q or K    0 ... hdim_v - 1    hdim_v ... hdim - 1
    upstream's names     q_v, v              q, k
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.backends.flash_attn_3.situation import Fa3Situation
from fmha_cli.backends.gpu.call import Call, Strides
from fmha_cli.codegen.flash_attn_3.facts import BYTES

_HELD = {"q": "q", "qv": "q", "k": "k", "v": "k", "k_new": "k_new", "v_new": "k_new"}
"""The tensor that holds an operand of a call with ``q_v``."""
_BEHIND = ("q", "k", "k_new")
"""The operands behind V's columns."""


@dataclass(frozen=True)
class Operand:
    """The device address of the first element, and strides in elements. Columns lie side by side."""

    address: int
    strides: Strides


def operand(call: Call[Fa3Situation], name: str) -> Operand:
    """An operand by upstream's name; address 0 for ``qv`` in a call without one."""
    p = call.problem
    if not call.situation.qv:
        return Operand(0, Strides(0, 0, 0)) if name == "qv" else Operand(call.address(name), _strides(call, name))
    held = _HELD[name]
    first = p.hdim_v if name in _BEHIND else 0
    return Operand(call.address(held) + first * BYTES[p.dtype], _strides(call, held))


def _strides(call: Call[Fa3Situation], name: str) -> Strides:
    return call.keys(name) if name in ("k", "v") else call.rows(name)
