"""The free choices of a kernel, and the configurations that the plugin's data has for an architecture."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, ClassVar

from fmha_cli import plugin

_HALF_BITS = 16


class Language(StrEnum):
    """The language of a kernel's source."""

    TRITON = "triton"
    GLUON = "gluon"


@dataclass(frozen=True, kw_only=True)
class TritonAlgorithm(plugin.Algorithm):
    """The free choices.

    Attributes:
        block_m, block_n: rows and keys of a tile. Kernels without keys have block_n 0.
        num_warps: warps (waves) of a program; of a warp-specialised kernel, those of a consumer.
        num_stages: stages of the software pipeline, as Triton counts them.
        waves_per_eu: the occupancy that AMD's compiler aims at, 0 = its own choice.
        pad: head dims below the kernel's own are served; else only equal ones.
        num_ctas: CTAs of a cluster, which compute a tile together. The digest has it where there are several.
    """

    json_later: ClassVar[tuple[str, ...]] = ("num_ctas",)

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    waves_per_eu: int = 0
    pad: bool
    language: Language = Language.TRITON
    num_ctas: int = 1


@cache
def data() -> dict[str, Any]:
    """``configs.json``: the plugin's own facts about architectures, and the configurations."""
    text = resources.files("fmha_triton").joinpath("configs.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def archs() -> tuple[str, ...]:
    """Architectures that the kernels are compiled for."""
    return tuple(data()["archs"])


@dataclass(frozen=True)
class Target:
    """Triton's name of an architecture.

    Attributes:
        kind: ``cuda`` or ``hip``.
        arch: Triton's name: 90 for sm_90a, or ``gfx942``.
        wave: threads of a warp.
        fp8: Triton's names of the fp8 types that its dot takes there, by this project's element names.
    """

    kind: str
    arch: int | str
    wave: int
    fp8: tuple[tuple[str, str], ...]


@cache
def target_of(arch: str) -> Target:
    """The target of an architecture.

    Raises:
        KeyError: no kernel is compiled for it.
    """
    row = data()["archs"][arch]
    return Target(row["kind"], row["triton"], row["wave"], tuple(row["fp8"].items()))


def key_of(hdim: int, bits: int = 16, num_ctas: int = 1, hdim_v: int | None = None) -> str:
    """The key of a configuration: ``128``, ``128v64`` with another head dim of V, ``128:8`` of 8 bits, ``128x2`` of two CTAs."""
    values = "" if hdim_v in (None, hdim) else f"v{hdim_v}"
    return f"{hdim}{values}{'' if bits == _HALF_BITS else f':{bits}'}{'' if num_ctas == 1 else f'x{num_ctas}'}"


def configuration(
    arch: str, kernel: str, hdim: int, *, pad: bool, bits: int = 16, num_ctas: int = 1, hdim_v: int | None = None
) -> TritonAlgorithm:
    """The configuration of a kernel (``forward``, ``split`` ...) with a head dim, and another one of V if there is one.

    Raises:
        KeyError: the data has none.
    """
    table = data()["kernels"][kernel]["by_class"][data()["archs"][arch]["class"]]
    row = table.get(key_of(hdim, bits, num_ctas, hdim_v)) or table[key_of(hdim, num_ctas=num_ctas, hdim_v=hdim_v)]
    return TritonAlgorithm(**dict(zip(data()["columns"], row, strict=True)), pad=pad, num_ctas=num_ctas)
