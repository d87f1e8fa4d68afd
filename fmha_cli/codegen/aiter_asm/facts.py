"""The kernels, and what upstream's host code says about each (``arch_specs/_aiter_asm.json``, which explains the members)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Algorithm, Family, KernelSpec
from fmha_cli.domain.signature import MaskKey, ModeKey, Need, Signature

NAME = "aiter_asm"
_HDIM_V = 128


class Rounding(StrEnum):
    """How P is rounded to bf16: to nearest even, to nearest with ties away from zero, towards zero, or the kernel's one way."""

    RTNE = "rtne"
    RTNA = "rtna"
    RTZ = "rtz"
    OWN = "own"


@dataclass(frozen=True, kw_only=True)
class AiterAlgorithm(Algorithm):
    """The choices of a kernel.

    Attributes:
        tile: rows of Q for a work-group, and keys of a step.
        cvt: upstream's ``how_v3_bf16_cvt``.
        product: the folder of the product that the code object is for; empty where there is one for all.
    """

    tile: tuple[int, ...]
    cvt: Rounding
    product: str


@dataclass(frozen=True, kw_only=True)
class AiterFacts:
    """One kernel in upstream's words.

    Attributes:
        path: of the code object in the pinned source.
        threads: work-items of a work-group.
        units: numbers of compute units for which upstream picks the file; empty for any.
    """

    path: str
    symbol: str
    threads: int
    units: tuple[int, ...]


def kernels(arch: str) -> Sequence[KernelSpec]:
    """The kernels of an architecture that has some; those with upstream's default rounding come first."""
    return tuple(_facts(arch))


def facts_of(kernel: KernelSpec) -> AiterFacts:
    """The facts about a kernel that exists."""
    return _facts(kernel.arch)[kernel]


def algorithm_of(kernel: KernelSpec) -> AiterAlgorithm:
    """The choices of a kernel of this backend.

    Raises:
        TypeError: it is another backend's.
    """
    if not isinstance(kernel.algorithm, AiterAlgorithm):
        raise TypeError(f"{kernel.name} is no kernel of {NAME}")
    return kernel.algorithm


@cache
def _facts(arch: str) -> Mapping[KernelSpec, AiterFacts]:
    document = arch_document("_aiter_asm.json", "fmha.aiter-asm/1")
    rows = [row for row in document["forward"] if row["arch"] == arch]
    return {
        _kernel(row, product): AiterFacts(
            path="/".join(filter(None, ("aiter_meta/hsa", arch, "fmha_v3_fwd", product, row["file"]))),
            symbol=row["symbol"],
            threads=row["threads"],
            units=tuple(units),
        )
        for row in rows
        for product, units in document["products"][arch].items()
    }


def _kernel(row: Mapping[str, Any], product: str) -> KernelSpec:
    dtype = DType(row["dtype"])
    signature = Signature(
        dtype=dtype,
        dtype_out=dtype,
        hdim=row["hdim"],
        hdim_v=_HDIM_V,
        mode=ModeKey.GROUP if row["group"] else ModeKey.BATCH,
        mask=MaskKey.CAUSAL if row["causal"] else MaskKey.NONE,
        lse=Need.ANY,
        gqa=Need.ANY,
        deterministic=Need.ANY,
    )
    algorithm = AiterAlgorithm(tile=tuple(row["tile"]), cvt=Rounding(row["cvt"]), product=product)
    return KernelSpec(backend=NAME, family=Family.FWD, arch=row["arch"], signature=signature, algorithm=algorithm)
