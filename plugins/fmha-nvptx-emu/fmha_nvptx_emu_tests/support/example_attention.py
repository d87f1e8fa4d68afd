"""The multi-CTA attention example of Triton's repository, read from a checkout, on an emulated device. Nothing of it is kept here.

Its host code chooses the configuration, makes the descriptors and launches. The problems are smaller ones of its own
test.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, patch

import numpy as np
import pytest

from fmha_nvptx_emu_tests.support.emulated_triton import EmulatedTriton, Launched
from fmha_nvptx_emu_tests.support.triton_anchors import worst
from fmha_nvptx_emu_tests.support.tutorial_anchors import VARIABLE

FILE = Path("python", "examples", "gluon", "01-attention-forward.py")
REVISIONS = {
    "b1b319600f076fc7ab2cb31fa0f12402b35ed0b69bff61171de6d1dcf7f71b3c": "triton-lang/triton 011dee30",
    "5b017776ed8b5c55ab0972020ed30302e965b3511c68000e6fbe85831d7ae735": "facebookexperimental/triton db4666f2",
}
"""Known states of the file by their digests."""
RENAMED = {"._reinterpret(": ".reinterpret(", "tma.async_copy_shared_to_global(": "tma.async_store("}
"""Names that Triton 3.9 has no more, and their successors."""
ROUNDING = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp8_e5m2": 2.0**-3}
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp8_e5m2": "float8_e5m2"}
CTAS: Mapping[int, tuple[tuple[int, int], ...]] = {1: (), 2: ((1, 0),), 4: ((1, 0), (2, 0))}
LSE = 1e-5
"""Budget of the logarithm to base 2 of the sums, of 1 + its magnitude."""
SCALE = 0.5


@dataclass(frozen=True)
class Point:
    """One point of the grid of the example's test. ``reduced``: tensor memory finds the maximum while it is loaded."""

    head_dim: int
    causal: bool
    dtype: str
    ctas: int
    reduced: bool = False

    def __str__(self) -> str:
        kind = f"{self.dtype} d{self.head_dim}{', causal' * self.causal}{', reduced' * self.reduced}"
        return f"{kind}, {self.ctas} CTA{'s' * (self.ctas > 1)}"


def points(arch: str) -> list[Point]:
    """The grid of the example's own test."""
    reduced = (False, True) if arch == "sm_103a" else (False,)
    axes = product((64, 128), (False, True), DTYPES, CTAS, reduced)
    return [Point(*one) for one in axes]


def example() -> Path:
    """The example's file.

    Raises:
        ValueError: the variable is not set, or the checkout lacks the file.
    """
    home = os.environ.get(VARIABLE)
    if not home:
        raise ValueError(f"{VARIABLE} does not name a checkout of triton-lang/triton")
    path = Path(home) / FILE
    if not path.is_file():
        raise ValueError(f"{path} does not exist: {VARIABLE} is no checkout of triton-lang/triton that has the example")
    return path


def revision(path: Path) -> str:
    """The known state of the file, or its digest."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return REVISIONS.get(digest, f"unknown, sha256 {digest[:16]}")


@cache
def module(path: Path, changes: tuple[tuple[str, str], ...] = ()) -> ModuleType:
    """The example, imported from a copy that lives as long as the process. It asks for the device while it is imported.

    Args:
        changes: texts and what takes their places: planted faults.
    """
    text = path.read_text("utf-8")
    for before, after in RENAMED.items():
        text = text.replace(before, after)
    for before, after in changes:
        assert text.count(before) == 1
        text = text.replace(before, after)
    folder = tempfile.TemporaryDirectory(prefix="fmha-example-")
    copy = Path(folder.name, "attention_forward.py")
    copy.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    with patch.object(pytest, "mark", MagicMock()):  # its tests have marks that no configuration here knows
        spec.loader.exec_module(made)
    made.folder = folder  # type: ignore[attr-defined]  # removed with the module
    return made


@dataclass(frozen=True)
class Ran:
    """What a launch left.

    Attributes:
        error: the largest of a row of O, divided by the norm of that row.
        lse_error: the largest of the logarithms, divided by 1 + its magnitude.
        budget: what ``error`` must be below.
    """

    launched: Launched
    error: float
    lse_error: float
    budget: float

    @property
    def verdict(self) -> str:
        """right, WRONG, FINDING, or STOPPED and why."""
        if self.launched.fault is not None:
            return f"STOPPED: {self.launched.fault}"
        if self.launched.kinds:
            return "FINDING"
        return "right" if self.error < self.budget and self.lse_error < LSE else "WRONG"


def attention(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """O and the logarithms to base 2 of the sums in float64."""
    q, k, v = (one.detach().double().numpy() for one in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (SCALE / np.log(2))
    if causal:
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp2(scores - top)
    sums = e.sum(-1, keepdims=True)
    return e / sums @ v, (top + np.log2(sums))[..., 0]


def run(driver: EmulatedTriton, point: Point, length: int, seed: int, made: ModuleType, heads: int = 2) -> Ran:
    """Execute the example's host function and its kernel once, with one sequence, and compare with float64."""
    import torch

    random = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, DTYPES[point.dtype])
    shape = (1, heads, length, point.head_dim)
    q, k, v = (torch.empty(shape).normal_(0, 0.5, generator=random).to(dtype) for _ in range(3))
    o, sums = torch.full(shape, float("nan")).to(dtype), torch.full(shape[:-1], float("nan"))
    layout = {name: CTAS[point.ctas] for name in ("cga_layout", "cta_layout") if name in _parameters(made)}
    made.attention_forward(q, k, v, point.causal, SCALE, o, sums, use_tmem_red=point.reduced, **layout)
    wanted, logarithms = attention(q, k, v, point.causal)
    apart = np.abs(sums.double().numpy() - logarithms) / (1 + np.abs(logarithms))
    lse_error = float(np.max(np.where(np.isnan(apart), np.inf, apart)))
    error = worst(o.double().numpy(), wanted)
    return Ran(driver.launches[-1], error, lse_error, 2 * ROUNDING[point.dtype])


def _parameters(made: ModuleType) -> list[str]:
    """Names of the host function's parameters: an earlier state calls the layout of the cluster otherwise."""
    code: Callable[..., Any] = made.attention_forward
    return list(code.__code__.co_varnames[: code.__code__.co_argcount + code.__code__.co_kwonlyargcount])
