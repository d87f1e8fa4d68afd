"""The kernels that PyTorch can be told to run, from ``limits.json``. PyTorch is not imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli import api, plugin


class Way(StrEnum):
    """The function that computes: a backend of SDPA, or another function of ``torch.nn.attention``."""

    FLASH = "flash"
    MEM_EFFICIENT = "mem_efficient"
    CUDNN = "cudnn"
    MATH = "math"
    FLEX = "flex"
    FLEX_COMPILED = "flex_compiled"
    VARLEN = "varlen"


class Masking(StrEnum):
    """How a kernel gets its mask and bias."""

    CAUSAL = "causal"  # SDPA's flag: the top-left triangle
    TENSOR = "tensor"  # added to all scores, and read
    SCORE_MOD = "score_mod"  # functions of flex_attention
    WINDOW = "window"  # bottom-right bounds of varlen_attn


@dataclass(frozen=True, kw_only=True)
class TorchAlgorithm(plugin.Algorithm):
    """Which kernel, and how it is masked."""

    way: Way
    masking: Masking


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The problems that PyTorch accepts for a kernel on ``cpu``, ``cuda`` or ``rocm``: a row of ``limits.json``."""

    place: str
    way: Way
    masks: tuple[Masking, ...]
    archs: tuple[str, ...]
    directions: tuple[str, ...]
    fields: Mapping[str, str]  # of the signature, that are not at their defaults
    runs: str  # the entry in a profile when the kernel ran
    source: str
    dtypes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    same_hdim: bool = False
    max_hdim: int = 1 << 20
    multiple: Mapping[str, int] = field(default_factory=dict)  # dtype -> divisor of both head dims
    empty: bool = True  # there may be no queries or no keys
    lse_of: tuple[str, ...] | None = None  # dtypes whose LSE is right where every row sees a key; None = it always is
    sums: int = 0  # the most parts of dK and dV that are added in 16 bits; 0 = they are added in fp32
    square: bool = False  # is_causal needs as many queries as keys
    least_keys: int = 1
    most_heads: int = 1 << 20
    backward_to: Mapping[str, int] = field(
        default_factory=dict
    )  # architecture -> head dim; max_hdim - 31 and above work
    same_mask_dtype: bool = False  # a mask tensor has Q's type


@cache
def table() -> Mapping[str, Any]:
    """The document ``limits.json``."""
    return dict(json.loads(Path(__file__).with_name("limits.json").read_text("utf-8")))


@cache
def limits() -> tuple[Limits, ...]:
    """All rows, in the order in which PyTorch prefers the kernels of a place."""
    rows = [{"archs": table()["places"][row["place"]]["archs"], **row} for row in table()["kernels"]]
    enums = [{"way": Way(row["way"]), "masks": tuple(map(Masking, row["masks"]))} for row in rows]
    return tuple(Limits(**{**row, **of}) for row, of in zip(rows, enums, strict=True))


@cache
def limits_at(arch: str, way: Way) -> Limits:
    return next(row for row in limits() if arch in row.archs and row.way is way)


@cache
def kernels_of(arch: str) -> tuple[api.KernelSpec, ...]:
    """Every kernel of an architecture, in PyTorch's order."""
    return tuple(kernel for row in limits() if arch in row.archs for kernel in _kernels(arch, row))


def _kernels(arch: str, row: Limits) -> Iterator[api.KernelSpec]:
    families = {"fwd": plugin.Family.FWD, "bwd": plugin.Family.BWD_DQ_DK_DV}
    for masking in row.masks:
        algorithm = TorchAlgorithm(way=row.way, masking=masking)
        for direction in row.directions:
            for dtype in map(plugin.DType, row.dtypes):
                fields = {"dtype": dtype, "dtype_out": dtype, **_fields(row, masking, direction)}
                signature = plugin.Signature(hdim=row.max_hdim, hdim_v=row.max_hdim, **fields)
                of: dict[str, Any] = {"backend": "torch", "family": families[direction], "arch": arch}
                yield api.KernelSpec(**of, signature=signature, algorithm=algorithm)


def _fields(row: Limits, masking: Masking, direction: str) -> dict[str, Any]:
    values: dict[str, Any] = {n: plugin.Need(text) for n, text in row.fields.items()} | {"mask": plugin.MaskKey.ANY}
    if masking in (Masking.TENSOR, Masking.SCORE_MOD):
        values |= {"bias": plugin.BiasKey.ANY, "sink": plugin.Need.ANY}
    if masking is Masking.SCORE_MOD:
        values |= {"softcap": plugin.Need.ANY, "mode": plugin.ModeKey.ANY}
    if masking is Masking.WINDOW:
        values |= {"mode": plugin.ModeKey.GROUP}
    only = {"lse": direction == "fwd", "dbias": direction == "bwd" and masking is Masking.TENSOR}
    return {name: value for name, value in values.items() if only.get(name, True)}
