"""Which of upstream's templates a forward kernel instantiates, and with which arguments.

Source: ``hopper/flash_fwd_launch_template.h`` ``run_flash_fwd`` of the sdist of xformers 0.0.34.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.codegen.flash_attn_3.algorithm import Fa3Algorithm
from fmha_cli.codegen.flash_attn_3.backward_instance import BACKWARD, Backward, backward_of
from fmha_cli.codegen.flash_attn_3.facts import BYTES, ELEMENTS
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import MaskKey, Need

FORWARD = (Family.FWD, Family.FWD_SPLITKV)
WRITTEN = (Family.FWD_PREPARE, *FORWARD, Family.FWD_SPLITKV_COMBINE, *BACKWARD)
"""The families whose kernels have an instance here."""


class TileScheduler(StrEnum):
    """The tile schedulers of forward kernels, by the beginnings of their names."""

    STATIC = "StaticPersistentTileScheduler"
    DYNAMIC = "DynamicPersistentTileScheduler"
    SINGLE = "SingleTileScheduler"
    VARLEN = "VarlenDynamicPersistentTileScheduler"


def algorithm_of(kernel: KernelSpec) -> Fa3Algorithm:
    """The kernel's algorithm.

    Raises:
        TypeError: the kernel is not a FlashAttention-3 kernel.
    """
    if not isinstance(kernel.algorithm, Fa3Algorithm):
        raise TypeError(f"{kernel.name} is not a FlashAttention-3 kernel")
    return kernel.algorithm


@dataclass(frozen=True)
class ForwardInstance:
    """One forward kernel in upstream's words.

    Attributes:
        causal, local, softcap, split, append: ``Is_causal``, ``Is_local``, ``Has_softcap``, ``Split``, ``AppendKV``.
    """

    dtype: DType
    hdim: int
    hdim_v: int
    causal: bool
    local: bool
    softcap: bool
    split: bool
    append: bool
    a: Fa3Algorithm

    @property
    def element_bytes(self) -> int:
        return BYTES[self.dtype]

    @property
    def out(self) -> DType:
        """``ElementOut``: fp8 kernels write bf16."""
        return DType.BF16 if self.element_bytes == 1 else self.dtype

    @property
    def scheduler(self) -> TileScheduler:
        """``TileScheduler``: ``UsePersistentScheduler`` is false for a dense split alone."""
        if self.a.varlen:
            return TileScheduler.VARLEN
        if self.split:
            return TileScheduler.SINGLE
        return TileScheduler.DYNAMIC if self.causal or self.local else TileScheduler.STATIC

    @property
    def stores_by_tma(self) -> bool:
        """``Use_TMA_O``."""
        return not (self.a.varlen or self.split or self.a.pack_gqa)

    @property
    def groups(self) -> int:
        """``NumMmaWarpGroups``: ``AtomLayoutPV`` has one for 64 rows, or for 256 columns of a V wider than that."""
        return self.hdim_v // 256 if self.hdim_v > 256 else self.a.tile[0] // 64

    @property
    def threads(self) -> int:
        """``MaxThreadsPerBlock``: the warp groups that multiply, and one that loads."""
        return 128 * (self.groups + 1)

    @property
    def template_id(self) -> str:
        """Upstream's function of launch code with its arguments, which no other kernel has."""
        a = self.a
        sizes = (90, self.hdim, self.hdim_v, a.cluster)
        flags = (
            self.causal,
            self.local,
            self.softcap,
            a.varlen,
            a.paged,
            self.append,
            a.qv,
            a.pack_gqa,
            self.split,
            False,
        )
        words = (*map(str, sizes), ELEMENTS[self.dtype], ELEMENTS[self.out], *map(flag, flags))
        return f"run_flash_fwd<{', '.join(words)}>"


@dataclass(frozen=True)
class CombineInstance:
    """One kernel that adds up the parts of a split, in upstream's words (``run_flash_fwd_combine``)."""

    out: DType
    a: Fa3Algorithm

    threads = 256
    """``kNThreads``."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of ``FlashAttnFwdCombine``. LSE is read one number at a time, and head dims are not taken as even."""
        rows, columns = self.a.tile
        shape = f"cute::Shape<cute::Int<{rows}>, cute::Int<{columns}>>"
        numbers = (str(self.a.log_max_splits), str(self.threads), "1", "false", flag(self.a.varlen))
        return (shape, *numbers, ELEMENTS[self.out], "float", "cutlass::arch::Sm90")

    @property
    def template_id(self) -> str:
        """Upstream's function of launch code with its arguments."""
        words = (90, *self.a.tile, self.a.log_max_splits, "false", flag(self.a.varlen), ELEMENTS[self.out], "float")
        return f"run_flash_fwd_combine<{', '.join(map(str, words))}>"


SEQUENCES_PER_WARP = 31
"""``kNumBatchPerWarp``."""


@dataclass(frozen=True)
class PrepareInstance:
    """One kernel that divides the tiles of packed sequences among blocks, in upstream's words (``prepare_varlen_num_blocks``)."""

    a: Fa3Algorithm

    @property
    def warps(self) -> int:
        return self.a.tile[0] // SEQUENCES_PER_WARP

    @property
    def threads(self) -> int:
        """``BLOCK_DIM_X``."""
        return 32 * self.warps

    @property
    def template_id(self) -> str:
        return f"prepare_varlen_num_blocks_kernel<{self.warps}, {flag(self.a.sort)}>"


Instance = ForwardInstance | CombineInstance | PrepareInstance | Backward


def flag(value: bool) -> str:
    return "true" if value else "false"


def instance_of(kernel: KernelSpec) -> Instance:
    """The instance that corresponds to a kernel.

    Raises:
        ValueError: the kernel is of another family.
    """
    if kernel.family is Family.FWD_SPLITKV_COMBINE:
        return CombineInstance(kernel.signature.dtype_out, algorithm_of(kernel))
    if kernel.family is Family.FWD_PREPARE:
        return PrepareInstance(algorithm_of(kernel))
    if kernel.family in BACKWARD:
        return backward_of(kernel.family, kernel.signature, algorithm_of(kernel))
    return forward_instance(kernel)


def forward_instance(kernel: KernelSpec) -> ForwardInstance:
    """The instance that corresponds to a forward kernel.

    Raises:
        ValueError: the kernel is of another family.
    """
    s, a = kernel.signature, algorithm_of(kernel)
    if kernel.family not in FORWARD:
        raise ValueError(f"{kernel.family.value} is no forward kernel of FlashAttention-3")
    return ForwardInstance(
        dtype=s.dtype,
        hdim=s.hdim,
        hdim_v=s.hdim_v,
        causal=s.mask is MaskKey.CAUSAL,
        local=s.mask is MaskKey.WINDOW,
        softcap=s.softcap is Need.YES,
        split=s.split is Need.YES,
        append=s.append is Need.YES,
        a=a,
    )
