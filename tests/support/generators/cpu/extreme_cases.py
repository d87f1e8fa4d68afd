"""Problems whose scores, biases or sinks are extreme, with right values by the formula: it rounds scores to fp32 as a kernel does, and
where the products are as large as that, they are whole multiples of a power of 2, so that no kernel rounds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.generators.cpu.backward_cases import BackwardCase, finish_forward, make_backward
from tests.support.generators.cpu.cases import NUMPY, AttentionCase, make_data, make_pages
from tests.support.models.faults import ExtremeFault

LEAST = {"fp32": -3.4028234663852886e38, "fp16": -65504.0, "bf16": -3.3895313892515355e38}
"""The lowest finite number of a type: what clients add where nothing is to be seen."""
WHOLE = {"fp32": 2.0**17, "fp16": 2.0**14, "bf16": 2.0**17}
"""Of the size 1e5, and in fp16 of 2e4: scores reach 1e10."""
FIRST, HIDDEN, EMPTY = 1, 5, 2
"""The row that has the bias, the key that is hidden, the row that sees nothing."""

Change = Callable[[AttentionCase], None]


@dataclass(frozen=True)
class Extreme:
    """What is changed in ``AttentionCase.data``, and what the case must have for it."""

    name: str
    change: Change
    needs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _bias_of(row: slice | int, key: slice | int, values: dict[str, float]) -> Change:
    def change(case: AttentionCase) -> None:
        case.data["bias"][..., row, key] = values[case.dtype]

    return change


def _sinks(value: float) -> Change:
    def change(case: AttentionCase) -> None:
        case.data["sink_logits"][:] = value

    return change


def _products(case: AttentionCase) -> None:
    for name in ("q", "k"):
        rows = case.data[name]
        rows[...] = (np.sign(np.nan_to_num(rows.astype(np.float32))) * WHOLE[case.dtype]).astype(rows.dtype)


def _hide(case: AttentionCase) -> None:
    """A key that a bias of -inf hides from all rows, and a row that sees no key."""
    d = case.data
    d["bias"][..., HIDDEN], d["bias"][..., EMPTY, :] = -np.inf, -np.inf
    d["k"][0, :, HIDDEN], d["v"][0, :, HIDDEN] = np.nan, np.inf


BIASED: dict[str, Any] = {"bias": (1, 2)}
SINKS: dict[str, Any] = {"sink_logits": True}
FAR = {"fp32": 1e20, "fp16": 6e4, "bf16": 1e20}
OFF = {"fp32": -1e9, "fp16": -6e4, "bf16": -1e9}
ONE_KEY = Extreme("bias of 1e20 on one key", _bias_of(FIRST, 3, FAR), BIASED)
HIDDEN_KEY = Extreme("bias of -inf on NaN", _hide, BIASED)
EXTREMES = (
    ONE_KEY,
    HIDDEN_KEY,
    Extreme("row of finfo.min", _bias_of(FIRST, slice(None), LEAST), BIASED),
    Extreme("rows of finfo.min", _bias_of(slice(None), slice(None), LEAST), BIASED),
    Extreme("row of -1e9", _bias_of(FIRST, slice(None), OFF), BIASED),
    Extreme("products of 1e10", _products),
    Extreme("products of 1e10, negative scale", _products, {"scale": -0.125}),
    Extreme("products of 1e10, causal", _products, {"right": 0}),
    Extreme("products of 1e10, bias", _products, BIASED),
    Extreme("products of 1e10, ALiBi", _products, {"alibi": 1}),
    Extreme("products of 1e10, softcap", _products, {"softcap": 20.0}),
    *(
        Extreme(f"sinks of {value:g}{name}", _sinks(value), SINKS | needs)
        for value in (3.4e38, -3.4e38, 1e20)
        for name, needs in (("", {}), (", softcap", {"softcap": 20.0}), (", ALiBi", {"alibi": 1}), (", bias", BIASED))
    ),
)

SHOWN_BY = {ExtremeFault.SCALED_MAXIMUM: ONE_KEY, ExtremeFault.BIASED_KEY: HIDDEN_KEY}


def extreme_case(extreme: Extreme, dtype: str, kind: str, **more: Any) -> AttentionCase:
    """A problem of a kernel's kind. Backward: with O and LSE."""
    backward, few = kind == "backward", kind not in ("prefill", "backward")
    made = (BackwardCase if backward else AttentionCase)(
        dtype, heads=2, kv_heads=1 if few else 2, q_len=(3 if few else 70,), k_len=(190,), capacity=190, hdim=64,
        hdim_v=40, large=True, splits=3 if kind == "split" else 0, **(extreme.needs | more),
    )  # fmt: skip
    rng = np.random.default_rng(5)
    if isinstance(made, BackwardCase):
        made.dbias = made.bias is not None
        make_backward(made, rng)
    else:
        make_data(made, rng)
    extreme.change(made)
    if made.page:
        make_pages(made, rng)
    if isinstance(made, BackwardCase):
        finish_forward(made)
    assert made.data["q"].dtype == NUMPY[dtype]
    return made
