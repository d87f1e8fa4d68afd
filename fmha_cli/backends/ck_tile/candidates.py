"""The main kernels of one family, grouped so that a problem is judged once per group and not once per kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from fmha_cli.arch import load_arch
from fmha_cli.backends.ck_tile.condition import algorithm_of
from fmha_cli.backends.ck_tile.kernel_rules import target_refusals
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.rules import Reason
from fmha_cli.signature import Signature

CLASS_FIELDS = (
    "dtype",
    "dtype_out",
    "hdim",
    "hdim_v",
    "mode",
    "mask",
    "cache",
    "qscale",
    "deterministic",
)
"""Signature fields that conditions may read beside family and algorithm. Kernels that agree in them are one class."""
SIZED_FIELDS = ("hdim", "hdim_v")
"""Signature fields that are bounds and not keys."""
_STAND_INS = (DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.FP8_E5M2, DType.MXFP8, DType.MXFP4)
"""What to try when a dtype has no kernel, most likely first: bf16 keeps the range of fp32."""
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Candidate:
    """One kernel, its place in upstream's generated chain, and the groups that it belongs to.

    Attributes:
        bucket: number of its head-dim case, in upstream's order, among those of its dtype.
        position: place inside the case.
        signature_group, kernel_class: indices into the family's lists.
    """

    kernel: KernelSpec
    bucket: int
    position: int
    signature_group: int
    kernel_class: int


@dataclass(frozen=True)
class Case:
    """The candidates of one dtype and head-dim pair."""

    dtype: DType
    dtype_out: DType
    hdim: int
    hdim_v: int
    candidates: tuple[Candidate, ...]

    def distance(self, dtype: DType, dtype_out: DType, hdim: int, hdim_v: int) -> tuple[int, ...]:
        """How far a problem is from the case, smallest first: its own dtype, then the wider 16-bit types, then
        head dims from just large enough to too small."""
        change = 0 if (dtype, dtype_out) == (self.dtype, self.dtype_out) else 1 + _STAND_INS.index(self.dtype)
        lacking = max(hdim - self.hdim, 0) + max(hdim_v - self.hdim_v, 0)
        return change, lacking, self.hdim + self.hdim_v


@dataclass(frozen=True)
class FamilyIndex:
    """The candidates of one family on one architecture.

    Attributes:
        cases: the candidates by dtype and head dims.
        keys: the signature fields that differ from kernel to kernel or are compared with a problem's.
        signatures: values of ``keys``, one tuple for each signature group; ``signed``: one kernel of each.
        classes: one kernel of each class.
        largest_rows: for each class, the largest bm0 of its head-dim case (``max_bm0`` of ``seqtune``).
        buckets: for each class, the number of its head-dim case.
        refusals: for each class, why its kernels cannot be built.
    """

    family: Family
    cases: tuple[Case, ...]
    keys: tuple[str, ...]
    signatures: tuple[Key, ...]
    signed: tuple[KernelSpec, ...]
    classes: tuple[KernelSpec, ...]
    largest_rows: tuple[int, ...]
    buckets: tuple[int, ...]
    refusals: tuple[tuple[Reason, ...], ...]


@lru_cache(maxsize=64)
def family_index(arch: str, family: Family) -> FamilyIndex:
    """The index of the baseline's kernels of a family; empty where the architecture has none."""
    from fmha_cli.backends.ck_tile.catalogue import family_kernels

    return index_of(family, family_kernels(load_arch(arch), family))


def index_of(family: Family, kernels: Sequence[KernelSpec]) -> FamilyIndex:
    """Group kernels that are given in the order of upstream's generator."""
    keys = tuple(f.name for f in fields(Signature) if f.name not in SIZED_FIELDS)
    buckets = _buckets(kernels)
    largest: dict[Key, int] = {}
    for kernel in kernels:
        key = _case(kernel)
        largest[key] = max(largest.get(key, 0), algorithm_of(kernel).tile[0])
    signatures: dict[Key, int] = {}
    classes: dict[Key, int] = {}
    representatives: list[KernelSpec] = []
    cases: dict[Key, list[Candidate]] = {}
    firsts: list[KernelSpec] = []
    for position, kernel in enumerate(_chain(kernels)):
        signature = kernel.signature
        by_signature = signatures.setdefault(tuple(getattr(signature, k) for k in keys), len(signatures))
        if by_signature == len(firsts):
            firsts.append(kernel)
        class_key = (*(getattr(signature, k) for k in CLASS_FIELDS), kernel.algorithm)
        by_class = classes.setdefault(class_key, len(classes))
        if by_class == len(representatives):
            representatives.append(kernel)
        case = _case(kernel)
        cases.setdefault(case, []).append(Candidate(kernel, buckets[case], position, by_signature, by_class))
    return FamilyIndex(
        family,
        tuple(Case(case[0], case[1], case[2], case[3], tuple(inside)) for case, inside in cases.items()),
        keys,
        tuple(signatures),
        tuple(firsts),
        tuple(representatives),
        tuple(largest[_case(k)] for k in representatives),
        tuple(buckets[_case(k)] for k in representatives),
        tuple(target_refusals(k) for k in representatives),
    )


def _case(kernel: KernelSpec) -> Key:
    s = kernel.signature
    return s.dtype, s.dtype_out, s.hdim, s.hdim_v


def _buckets(kernels: Iterable[KernelSpec]) -> dict[Key, int]:
    """Number of each head-dim case within its dtype, in the order of first appearance (``OrderedDict`` upstream)."""
    out: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    for kernel in kernels:
        case = _case(kernel)
        if case not in out:
            out[case] = counts.get(case[:2], 0)
            counts[case[:2]] = out[case] + 1
    return out


def _chain(kernels: Sequence[KernelSpec]) -> list[KernelSpec]:
    """Upstream's order of tests: as generated, small-tile backward kernels first (``max_seq_q_sort_key``)."""
    return sorted(kernels, key=lambda k: algorithm_of(k).max_seq_q or 1_000_000)
