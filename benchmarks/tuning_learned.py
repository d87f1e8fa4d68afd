"""Choices learned from tuned shapes: a model predicts the time of each kernel for a shape that it has not seen, and the fastest is taken.

Each shape is left out once. The regret of a choice is by what share its time is above the fastest kernel's for that
shape. The models are compared with the default (the backend's own choice) and the kernel that is best on average over
the other shapes of the type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row = Mapping[str, Any]
KINDS = ("prefill", "decode", "split")


def algorithm(kernel: str) -> dict[str, str]:
    """The fields of a kernel's algorithm, from its name."""
    return dict(part.split("=") for part in kernel.split(":")[4].split(","))


def features(problem: Mapping[str, Any], kernel: str) -> list[float]:
    """Features of a problem and a kernel: sizes in logarithms, tiles, and how the one divides the other."""
    a = algorithm(kernel)
    lanes = {"avx2": 8, "generic": 4}.get(a["simd"], 16)
    queries, keys, hdim = (max(1, problem[name]) for name in ("seqlen_q", "seqlen_k", "hdim"))
    tile, rows, block = lanes * int(a["lanes_q"]), int(a["rows_s"]), int(a["block_k"])
    decode = a["kind"] != "prefill"
    return [
        *(math.log2(size) for size in (queries, keys, hdim, problem["heads"])),
        float(problem["dtype"].startswith("bf16")),
        float(problem["mask"] != "none"),
        float(decode),
        float(a["simd"] == "amx"),
        float(lanes),
        float(a["lanes_q"]),
        float(rows),
        math.log2(block),
        math.log2(tile * rows),
        (-queries % (rows if decode else tile)) / queries,
        (-keys % block) / keys,
        (-hdim % tile) / hdim if decode else (-hdim % rows) / hdim,
        math.ceil(keys / block),
    ]


def _levels(row: Row) -> list[float | None]:
    """The best that is known of each kernel's time: from all samples where there are, else from those of halving."""
    found: list[float | None] = row.get("exhaustive", row["halving"])["levels_ns"]
    return found


def judged(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Regrets of each way to choose, one for each shape."""
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    shapes = [
        [(name, ns) for name, ns in zip(row["kernels"], _levels(row), strict=True) if ns is not None] for row in rows
    ]
    inputs = [
        np.array([features(row["problem"], name) for name, _ in shape]) for row, shape in zip(rows, shapes, strict=True)
    ]
    # the target is a kernel's time as a share of its shape's mean time: what a choice needs, and alike for all sizes
    targets = [np.log([ns for _, ns in shape]) - np.mean(np.log([ns for _, ns in shape])) for shape in shapes]
    models: dict[str, Callable[[], Any]] = {
        "boosted trees": lambda: HistGradientBoostingRegressor(max_iter=150, random_state=0),
        "least squares": lambda: make_pipeline(
            StandardScaler(), PolynomialFeatures(2), RidgeCV(np.logspace(-2, 4, 13))
        ),
    }
    out = {name: _left_out(inputs, targets, make) for name, make in models.items()}
    out["default"] = [_regret(target, 0) for target in targets]
    out["best on average"] = [_average(shapes, targets, place) for place in range(len(rows))]
    return out


def _left_out(inputs: Sequence[NDArray[Any]], targets: Sequence[NDArray[Any]], make: Callable[[], Any]) -> list[float]:
    import numpy as np

    found = []
    for place, (x, y) in enumerate(zip(inputs, targets, strict=True)):
        others = [i for i in range(len(inputs)) if i != place]
        model = make().fit(np.concatenate([inputs[i] for i in others]), np.concatenate([targets[i] for i in others]))
        found.append(_regret(y, int(np.argmin(model.predict(x)))))
    return found


def _regret(target: NDArray[Any], choice: int) -> float:
    return math.exp(float(target[choice] - target.min())) - 1


def _average(shapes: Sequence[Sequence[tuple[str, float]]], targets: Sequence[NDArray[Any]], place: int) -> float:
    """The regret of the kernel whose mean over the other shapes is least, among those that serve this one."""
    told: dict[str, list[float]] = {}
    for other, (shape, target) in enumerate(zip(shapes, targets, strict=True)):
        for (name, _), value in zip(shape, target, strict=True):
            if other != place:
                told.setdefault(name, []).append(float(value))
    names = [name for name, _ in shapes[place]]
    best = min(range(len(names)), key=lambda one: mean(told.get(names[one], [math.inf])))
    return _regret(targets[place], best)
