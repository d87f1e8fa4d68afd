"""The choices of Triton's Gluon attention example on Blackwell, as data: ``gluon_choices.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from fmha_cli import plugin

_HALF_BITS = 16
_WIDE_HDIM = 128


@dataclass(frozen=True)
class Choice:
    """One configuration of the example. The tile is 256 rows of a CTA by 128 keys.

    Attributes:
        num_ctas: CTAs of a cluster, which share K and V.
        heads_in_turn: heads whose tiles are neighbours in the order of the tiles.
        exp_parts: parts in which P is computed and stored.
        buffers: buffers of the ring that K and V share.
        turnstile: whether the two halves take turns at exp2.
        registers: registers of a thread at launch.
        reduced_load: whether a load from tensor memory also returns the maximum.
    """

    num_ctas: int
    heads_in_turn: int
    exp_parts: int
    buffers: int
    turnstile: bool
    registers: int
    reduced_load: bool


@cache
def _data() -> dict[str, Any]:
    text = resources.files("fmha_triton").joinpath("gluon_choices.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def choice(arch: str, dtype: plugin.DType, hdim: int, *, causal: bool, length: int) -> Choice | None:
    """The example's configuration for a sequence length; None where the example has none.

    A row holds from its length on, up to that of the next row.
    """
    asked = [arch, dtype.value, hdim, causal]
    rows = [row for row in _data()["rows"] if row[:4] == asked and row[4] <= length]
    return Choice(*max(rows, key=lambda row: row[4])[5:]) if rows else None


def reason(dtype: plugin.DType, hdim: int, *, causal: bool) -> str:
    """Why the example takes one CTA or two: it takes two without a mask, with head dim 128 and 16 bits."""
    words = ("causal" if causal else "non-causal", f"d {hdim}", f"{dtype.bits} bits")
    several = not causal and hdim == _WIDE_HDIM and dtype.bits == _HALF_BITS
    return f"{'multi-CTA' if several else 'one CTA'}: {', '.join(words)}"
