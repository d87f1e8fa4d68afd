"""``Worth``: how much the right answer of some rows would show about a kernel, and why a pass would prove little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from fmha_cli.oracle.reference import Reference

ONE_HOT = 1 - 2.0**-11
"""If the largest probability of a row is above this, a 16-bit output shows nothing of the other keys."""

_ONE_HOT_FILLS = ("large", "pointer")

_FEW = 64
"""With fewer elements, the integer fills may by chance give outputs of zeros, or rows of V that are all equal."""


@dataclass(frozen=True)
class Worth:
    """How much the right answer of some rows would show about a kernel.

    Attributes:
        elements: number of elements of O.
        seen: whether any row sees a key.
        finite: whether any row that sees a key has a finite element.
        nonzero: whether any row that sees a key has an element other than zero.
        varied: whether rows of V differ.
        choice: whether any row sees two keys or more.
        soft: whether the softmax of such a row is not one-hot.
    """

    elements: int
    seen: bool
    finite: bool
    nonzero: bool
    varied: bool
    choice: bool
    soft: bool

    @classmethod
    def of(cls, reference: Reference) -> Worth:
        """The worth of a reference's rows."""
        seen, choice = reference.visible > 0, reference.visible > 1
        o, peak = reference.o[seen], reference.peak[choice]
        return cls(
            elements=reference.o.size,
            seen=bool(seen.any()),
            finite=bool(np.isfinite(o).any()),
            nonzero=bool(o.any()),
            varied=not reference.flat_v,
            choice=bool(choice.any()),
            soft=bool((peak <= ONE_HOT).any()),
        )

    @classmethod
    def joined(cls, parts: Iterable[Worth]) -> Worth:
        """The worth of all parts together."""
        found = [cls(0, False, False, False, False, False, False), *parts]
        flags = {f.name: any(getattr(part, f.name) for part in found) for f in fields(cls) if f.name != "elements"}
        return cls(sum(part.elements for part in found), **flags)


def distrust_of(worth: Worth, fill: str) -> str | None:
    """Why a pass would prove little: the data let wrong kernels give the right answer. None if a pass is trusted.

    A problem without any visible pair has zeros as its only right answer, so its pass is trusted. The pass of a
    problem whose rows see at most one key is trusted too: its softmax is one-hot for every kernel. The fills ``large`` and
    ``pointer`` are one-hot on purpose and exempt from that reason.
    """
    if not worth.seen:
        return None
    if not worth.finite:
        return "no element of the right answer is finite: a kernel that writes only NaN passes"
    if worth.elements >= _FEW:
        if not worth.nonzero:
            return "the right answer is zero in every element: a kernel that does nothing passes"
        if not worth.varied:
            return "all rows of V are equal: any softmax gives the same output"
    if fill not in _ONE_HOT_FILLS and worth.choice and not worth.soft:
        return "the softmax is one-hot in every row: the weights of the other keys are not tested"
    return None
