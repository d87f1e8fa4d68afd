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
"""The head dim of a kernel that has no limit."""


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
    """A tensor (batch or 1, heads or 1, seqlen_q, seqlen_k) that is added: all scores are computed and the tensor is read."""
    SCORE_MOD = "score_mod"
    """Functions of flex_attention; its block mask leaves out blocks that nothing sees."""
    WINDOW = "window"
    """``window_size`` of varlen_attn: bottom-right bounds."""


@dataclass(frozen=True, kw_only=True)
class TorchAlgorithm(api.Algorithm):
    """Which kernel, and how it is masked."""

    way: Way
    masking: Masking


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What PyTorch accepts of one kernel at one place (``cpu``, ``cuda``, ``rocm``); a row of ``limits.json``.

    Attributes:
        fields: fields of the signature that are not at their defaults.
        multiple: dtype -> divisor of both head dims.
        empty: whether a sequence may have no queries or no keys.
        blind_lse: whether the LSE of a row that sees no key is -inf, as it must be.
        square: whether ``is_causal`` needs as many queries as keys.
        no_backward: head dims ``above`` .. ``to`` that have no backward pass on some architectures.
        same_mask_dtype: whether a mask tensor must have Q's type.
        runs: the operator that a profile shows when the kernel ran.
    """

    place: str
    way: Way
    masks: tuple[Masking, ...]
    directions: tuple[str, ...]
    fields: Mapping[str, str]
    runs: str
    source: str
    archs: tuple[str, ...]
    dtypes: tuple[str, ...] = ("fp32", "fp16", "bf16")
    same_hdim: bool = False
    max_hdim: int = WIDE
    multiple: Mapping[str, int] = field(default_factory=dict)
    empty: bool = True
    blind_lse: bool = True
    square: bool = False
    least_keys: int = 0
    most_heads: int = WIDE
    no_backward: Mapping[str, Any] | None = None
    same_mask_dtype: bool = False


@cache
def table() -> Mapping[str, Any]:
    """The document ``limits.json``."""
    found: Mapping[str, Any] = json.loads(Path(__file__).with_name("limits.json").read_text("utf-8"))
    return found


@cache
def all_limits() -> tuple[Limits, ...]:
    """Every row, in the order in which PyTorch prefers the kernels of a place."""
    return tuple(_limits(dict(row)) for row in table()["kernels"])


def _limits(row: dict[str, Any]) -> Limits:
    archs = row.pop("archs", table()["places"][row["place"]]["archs"])
    left_out = row.pop("not_archs", ())
    masks = tuple(Masking(name) for name in row.pop("masks"))
    way, archs = Way(row.pop("way")), tuple(arch for arch in archs if arch not in left_out)
    return Limits(**row, way=way, masks=masks, archs=archs)


def archs() -> tuple[str, ...]:
    """The architectures of all places."""
    return tuple(arch for place in table()["places"].values() for arch in place["archs"])


@cache
def kernels_of(arch: str) -> tuple[tuple[api.KernelSpec, Limits], ...]:
    """Every kernel of an architecture with its limits, in PyTorch's own order."""
    rows = (row for row in all_limits() if arch in row.archs)
    return tuple((kernel, row) for row in rows for kernel in _kernels(arch, row))


def limits_of(kernel: api.KernelSpec) -> Limits:
    """The limits of a listed kernel."""
    return next(row for one, row in kernels_of(kernel.arch) if one == kernel)


def _kernels(arch: str, row: Limits) -> Iterator[api.KernelSpec]:
    families = {"fwd": api.Family.FWD, "bwd": api.Family.BWD_DQ_DK_DV}
    for masking in row.masks:
        for direction in row.directions:
            for dtype in row.dtypes:
                yield api.KernelSpec(
                    backend="torch",
                    family=families[direction],
                    arch=arch,
                    signature=_signature(row, masking, direction, dtype),
                    algorithm=TorchAlgorithm(way=row.way, masking=masking),
                )


def _signature(row: Limits, masking: Masking, direction: str, dtype: str) -> api.Signature:
    values: dict[str, Any] = {"mask": api.MaskKey.ANY}
    if masking in (Masking.TENSOR, Masking.SCORE_MOD):
        values |= {"bias": api.BiasKey.ANY, "sink": api.Need.ANY}
    if masking is Masking.SCORE_MOD:
        values |= {"softcap": api.Need.ANY, "mode": api.ModeKey.ANY}
    for name, text in row.fields.items():
        values[name] = api.ModeKey(text) if name == "mode" else api.Need(text)
    if direction == "bwd":
        values |= {"lse": api.Need.NO}
    if direction == "fwd" or masking is not Masking.TENSOR:
        values |= {"dbias": api.Need.NO}
    kind = api.DType(dtype)
    return api.Signature(dtype=kind, dtype_out=kind, hdim=row.max_hdim, hdim_v=row.max_hdim, **values)
