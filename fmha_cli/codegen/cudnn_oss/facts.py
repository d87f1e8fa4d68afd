"""The kernels, and the statements of upstream's engines about each (``arch_specs/_cudnn_oss.json``, which explains the
members).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.domain.arch import arch_document, load_arch
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.signature import MaskKey, Need, Signature

NAME = "cudnn_oss"


@dataclass(frozen=True, kw_only=True)
class CudnnAlgorithm(Algorithm):
    """Rows and keys of a tile."""

    tile: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class KernelFacts:
    """One kernel in upstream's words."""

    engine: str
    file: str
    variable: str
    symbol: str
    tile: tuple[int, ...]
    threads: int
    shared: int
    element: str
    box_rows: Mapping[str, int]
    l2_bytes: int
    asserts: tuple[str, ...]


@cache
def kernels(arch: str) -> tuple[KernelSpec, ...]:
    """The kernels of an architecture that has some, by head dim."""
    fixed: dict[str, Any] = {"dtype": DType.BF16, "dtype_out": DType.BF16, "mask": MaskKey.CAUSAL_TL}
    fixed |= dict.fromkeys(("lse", "gqa", "deterministic"), Need.ANY)
    made = ((Signature(hdim=d, hdim_v=d, **fixed), CudnnAlgorithm(tile=f.tile)) for d, f in _facts(arch).items())
    return tuple(KernelSpec(backend=NAME, family=Family.FWD, arch=arch, signature=s, algorithm=a) for s, a in made)


def facts_of(kernel: KernelSpec) -> KernelFacts:
    """The facts about a kernel that exists."""
    return _facts(kernel.arch)[kernel.signature.hdim]


@cache
def _facts(arch: str) -> dict[int, KernelFacts]:
    engine = load_arch(arch).backends[NAME]["engine"]
    row = arch_document("_cudnn_oss.json", "fmha.cudnn-oss/1")["engines"][engine]
    tuples: dict[str, Any] = {"tile": tuple(row["tile"]), "asserts": tuple(row["asserts"])}
    return {
        int(hdim): KernelFacts(engine=engine, **row["common"], **tuples, **own) for hdim, own in row["kernels"].items()
    }
