"""The table of all kernels, ``arch_specs/_mem_efficient.json``: upstream's names and constants for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli.codegen.mem_efficient.algorithm import MemEffAlgorithm
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import Need

FAMILIES = (Family.FWD, Family.BWD_DQ_DK_DV)
"""One kernel is a whole forward or backward pass."""
_ELEMENTS = {DType.FP32: "float", DType.FP16: "cutlass::half_t", DType.BF16: "cutlass::bfloat16_t"}


@dataclass(frozen=True, eq=False)
class Traits:
    """One kernel of the table.

    Attributes:
        name, group: upstream's name for the kernel, and the part of the name of its file (``impl_group``).
        drops: whether the kernel can drop elements.
        only_cc: compute capabilities (86 for 8.6) on which alone upstream takes the kernel; empty for all of its tag.
        shared_bytes: dynamic shared memory of a launch.
        facts: upstream's constants by their names, which the cubin exports.
    """

    forward: bool
    name: str
    group: str
    dtype: DType
    algorithm: MemEffAlgorithm
    drops: bool
    only_cc: tuple[int, ...]
    shared_bytes: int
    facts: Mapping[str, int]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.facts["kNumThreads"]

    @property
    def accumulates(self) -> bool:
        """Whether the kernel sums O (backward: dK and dV) in an fp32 buffer, because registers cannot hold them."""
        return self.facts["kNeedsOutputAccumulatorBuffer" if self.forward else "kNeedsAccumGradK"] > 0

    @property
    def tested(self) -> int:
        """Elements of whose multiples upstream's host wants the strides of heads."""
        return self.facts["kAlignmentQ" if self.forward else "kMinimumAlignment"]

    @property
    def width(self) -> int:
        """Elements of whose multiples head dims must be. Backward kernels store in the largest unit, whatever they load."""
        return self.facts["kAlignmentQ" if self.forward else "kOptimalAlignement"]

    @property
    def template(self) -> str:
        """Upstream's template with all its arguments."""
        a, element = self.algorithm, _ELEMENTS[self.dtype]
        arch = f"cutlass::arch::Sm{a.tag}"
        first = (element, arch, a.aligned) if self.forward else (arch, element, a.aligned, self.drops, a.preload)
        # The two true of a forward kernel are kSupportsDropout_ and kSupportsBias_.
        last = (True, True) if self.forward else (True,) if a.seq_aligned else ()
        words = (
            str(word).lower() if isinstance(word, bool) else str(word) for word in (*first, *a.tile, a.max_k, *last)
        )
        return f"Attention{'' if self.forward else 'Backward'}Kernel<{', '.join(words)}>"


def document() -> Mapping[str, Any]:
    """The file of the table."""
    return arch_document("_mem_efficient.json", "fmha.mem-efficient/1")


@cache
def kernels_of(family: Family) -> tuple[Traits, ...]:
    """The kernels of a family, those of one tag and type in the order in which upstream tries them (``sort_index``)."""
    return tuple(_make_traits(family, **row) for row in document()[family.value])


def traits_of(kernel: KernelSpec) -> Traits:
    """The traits of a kernel.

    Raises:
        InternalError: the table lacks the kernel.
    """
    key = kernel.signature.dtype, kernel.signature.dropout, kernel.algorithm
    found = _by_key(kernel.family).get(key) if kernel.family in FAMILIES else None
    if found is None:
        raise InternalError(f"upstream has no memory-efficient kernel {kernel.name}")
    return found


@cache
def _by_key(family: Family) -> Mapping[tuple[object, ...], Traits]:
    return {(t.dtype, Need.ANY if t.drops else Need.NO, t.algorithm): t for t in kernels_of(family)}


def _make_traits(
    family: Family, *, name: str, group: str, dtype: str, shared: int, facts: list[int], **rest: Any
) -> Traits:
    forward, constants = family is Family.FWD, document()["constants"][family.value]
    drops, only_cc = forward or rest.pop("dropout", False), tuple(rest.pop("only_cc", ()))
    algorithm = MemEffAlgorithm(**{"aligned": True, **rest, "tile": tuple(rest["tile"])})
    numbers = dict(zip(constants, facts, strict=True))
    return Traits(forward, name, group, DType(dtype), algorithm, drops, only_cc, shared, numbers)
