"""The kernels that PyTorch can be told to run, from ``limits.json``. PyTorch is not imported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from fmha_cli import api

WIDE = 1 << 20
FAMILIES = {"fwd": api.Family.FWD, "bwd": api.Family.BWD_DQ_DK_DV}


class Way(StrEnum):
    """What computes: a backend of SDPA, or another function of ``torch.nn.attention``."""

    FLASH = "flash"
    MEM_EFFICIENT = "mem_efficient"
    CUDNN = "cudnn"
    MATH = "math"
    FLEX = "flex"
    FLEX_COMPILED = "flex_compiled"
    VARLEN = "varlen"


class Masking(StrEnum):
    """How the kernel learns what is masked and added, which decides what that costs."""

    CAUSAL = "causal"
    """SDPA's flag ``is_causal``: the top-left triangle, or nothing."""
    TENSOR = "tensor"
    """A tensor (batch or 1, heads or 1, seqlen_q, seqlen_k) that is added: all scores are computed and it is read."""
    SCORE_MOD = "score_mod"
    """Functions of flex_attention; its block mask leaves out blocks of which nothing is seen."""
    WINDOW = "window"
    """``window_size`` of varlen_attn: bottom-right bounds."""


@dataclass(frozen=True, kw_only=True)
class TorchAlgorithm(api.Algorithm):
    """Which kernel, and how it is masked."""

    way: Way
    masking: Masking


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What PyTorch accepts of a kernel at a place (``cpu``, ``cuda``, ``rocm``); a row of ``limits.json``.

    Attributes:
        fields: fields of the signature that are not at their defaults.
        runs: the operator that a profile shows when the kernel ran.
        multiple: dtype -> divisor of both head dims.
        empty: whether there may be no queries or no keys.
        blind_lse: whether the LSE of a row that sees no key is -inf.
        square: whether ``is_causal`` needs as many queries as keys.
        no_backward: head dims ``above`` .. ``to`` without a backward pass on some architectures.
        same_mask_dtype: whether a mask tensor must have Q's type.
    """

    place: str
    way: Way
    masks: tuple[Masking, ...]
    archs: tuple[str, ...]
    directions: tuple[str, ...]
    fields: Mapping[str, str]
    runs: str
    source: str
    dtypes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    same_hdim: bool = False
    max_hdim: int = WIDE
    multiple: Mapping[str, int] = field(default_factory=dict)
    empty: bool = True
    blind_lse: bool = True
    square: bool = False
    least_keys: int = 1
    most_heads: int = WIDE
    no_backward: Mapping[str, Any] | None = None
    same_mask_dtype: bool = False

    @staticmethod
    def of(row: Mapping[str, Any]) -> Limits:
        archs = row.get("archs", table()["places"][row["place"]]["archs"])
        known: dict[str, Any] = {name: value for name, value in row.items() if name != "not_archs"}
        known["way"], known["masks"] = Way(row["way"]), tuple(map(Masking, row["masks"]))
        known["archs"] = tuple(arch for arch in archs if arch not in row.get("not_archs", ()))
        return Limits(**known)


@cache
def table() -> Mapping[str, Any]:
    """The document ``limits.json``."""
    found: Mapping[str, Any] = json.loads(Path(__file__).with_name("limits.json").read_text("utf-8"))
    return found


@cache
def archs() -> tuple[str, ...]:
    """The architectures of all places."""
    return tuple(arch for place in table()["places"].values() for arch in place["archs"])


@cache
def kernels_of(arch: str) -> Mapping[api.KernelSpec, Limits]:
    """Every kernel of an architecture with its limits, in the order in which PyTorch prefers them."""
    rows = [Limits.of(row) for row in table()["kernels"]]
    return {kernel: row for row in rows if arch in row.archs for kernel in _kernels(arch, row)}


def _kernels(arch: str, row: Limits) -> Iterator[api.KernelSpec]:
    for masking in row.masks:
        algorithm = TorchAlgorithm(way=row.way, masking=masking)
        for direction in row.directions:
            for dtype in map(api.DType, row.dtypes):
                fields = _fields(row, masking, direction)
                signature = api.Signature(
                    dtype=dtype, dtype_out=dtype, hdim=row.max_hdim, hdim_v=row.max_hdim, **fields
                )
                of = {"backend": "torch", "family": FAMILIES[direction], "arch": arch}
                yield api.KernelSpec(**of, signature=signature, algorithm=algorithm)


def _fields(row: Limits, masking: Masking, direction: str) -> dict[str, Any]:
    values: dict[str, Any] = {"mask": api.MaskKey.ANY}
    if masking in (Masking.TENSOR, Masking.SCORE_MOD):
        values |= {"bias": api.BiasKey.ANY, "sink": api.Need.ANY}
    if masking is Masking.SCORE_MOD:
        values |= {"softcap": api.Need.ANY, "mode": api.ModeKey.ANY}
    for name, text in row.fields.items():
        values[name] = api.ModeKey(text) if name == "mode" else api.Need(text)
    only = {"lse": direction == "fwd", "dbias": direction == "bwd" and masking is Masking.TENSOR}
    return {name: value for name, value in values.items() if only.get(name, True)}
