"""Which of upstream's templates a kernel of a backward pass instantiates, and with which arguments.

Source: ``hopper/flash_bwd_launch_template.h`` ``run_flash_bwd`` of the sdist of xformers 0.0.34.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.flash_attn_3.algorithm import Fa3Algorithm
from fmha_cli.codegen.flash_attn_3.facts import ELEMENTS
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.signature import MaskKey, Need, Signature

BACKWARD = (Family.BWD_DOT_DO_O, Family.BWD_DQ_DK_DV, Family.BWD_CONVERT_DQ)
STAGES = 2
"""``Stages``: of Q in shared memory."""
LPT, SINGLE = "SingleTileBwdLPTScheduler", "SingleTileScheduler"
"""The tile schedulers of backward kernels, by the beginnings of their names. Neither counts tiles in memory."""


@dataclass(frozen=True)
class BackwardInstance:
    """One main kernel in upstream's words.

    Attributes:
        hdim: ``kHeadDim``, of Q and V.
        causal, local, softcap: ``Is_causal``, ``Is_local``, ``Has_softcap``.
    """

    dtype: DType
    hdim: int
    causal: bool
    local: bool
    softcap: bool
    a: Fa3Algorithm

    @property
    def scheduler(self) -> str:
        """``TileScheduler``."""
        return LPT if self.causal else SINGLE

    @property
    def stores_by_tma(self) -> bool:
        """``Use_TMA`` of ``CollectiveEpilogueBwd``. With ``GQA`` another epilogue adds to dK and dV in single precision."""
        return not (self.a.varlen or self.a.gqa)

    @property
    def sums_in_registers(self) -> bool:
        """``Mma_dKV_is_RS``: P stays in registers."""
        (sdp, dkv, _), (rows, columns, _) = self.a.swapped, self.a.atoms
        return rows == 1 and columns == self.a.groups and bool(sdp) and not dkv

    @property
    def threads(self) -> int:
        """``MaxThreadsPerBlock``: the warp groups that multiply, and one that loads."""
        return 128 * (self.a.groups + 1)

    @property
    def template_id(self) -> str:
        """Upstream's function of launch code with its arguments, which no other kernel has."""
        flags = (self.causal, self.local, self.softcap, self.a.varlen, self.a.fixed_order, self.a.gqa)
        swapped = map(bool, self.a.swapped)
        traits = (*self.a.stages, *swapped, self.a.groups, *self.a.atoms, self.a.v_in_regs)
        return f"run_flash_bwd<{spelled(90, self.hdim, *self.a.tile, ELEMENTS[self.dtype], *flags, *traits)}>"


@dataclass(frozen=True)
class DotInstance:
    """One kernel that sums the rows of dO * O, scales LSE and clears dQ's sums, in upstream's words."""

    dtype: DType
    hdim: int
    a: Fa3Algorithm

    threads = 256
    """``MaxThreadsPerBlock``."""

    @property
    def template_id(self) -> str:
        """``PreprocessKernel``."""
        shape = f"cute::Shape<cute::Int<{self.a.tile[0]}>, cute::Int<{self.hdim}>>"
        words = spelled(shape, ELEMENTS[self.dtype], "float", "cutlass::arch::Sm90", True, self.a.varlen)
        return f"flash::FlashAttnBwdPreprocess<{words}>"


@dataclass(frozen=True)
class ConvertInstance:
    """One kernel that scales and rounds the sums of dQ, or of dK and dV, in upstream's words.

    Its type is made from the main kernel's products, which depend on its traits alone and not on mask, softcap, lengths or order.
    """

    dtype: DType
    hdim: int
    a: Fa3Algorithm

    @property
    def rows(self) -> int:
        """Rows of a block: ``kBlockN`` of dK and dV, ``kBlockM`` of dQ."""
        return self.a.tile[1] if self.a.of_keys else self.a.tile[0]

    @property
    def threads(self) -> int:
        """``NumMmaThreads``, which ``NumEpilogueThreads`` is too."""
        return 128 * self.a.groups

    @property
    def products(self) -> BackwardInstance:
        """A main kernel with these traits."""
        return BackwardInstance(self.dtype, self.hdim, causal=False, local=False, softcap=False, a=self.a)

    @property
    def template_id(self) -> str:
        """``PostprocessKernel`` or ``PostprocessKerneldKV``, by the main kernel's arguments."""
        which = "PostprocessKerneldKV" if self.a.of_keys else "PostprocessKernel"
        return f"{which} of {self.products.template_id}"


Backward = BackwardInstance | DotInstance | ConvertInstance


def backward_of(family: Family, signature: Signature, a: Fa3Algorithm) -> Backward:
    """The instance that corresponds to a kernel of a family of ``BACKWARD``."""
    if family is Family.BWD_DOT_DO_O:
        return DotInstance(signature.dtype, signature.hdim, a)
    if family is Family.BWD_CONVERT_DQ:
        return ConvertInstance(signature.dtype, signature.hdim, a)
    return BackwardInstance(
        dtype=signature.dtype,
        hdim=signature.hdim,
        causal=signature.mask is MaskKey.CAUSAL,
        local=signature.mask is MaskKey.WINDOW,
        softcap=signature.softcap is Need.YES,
        a=a,
    )


def spelled(*words: object) -> str:
    """Template arguments in C++."""
    return ", ".join(str(word).lower() if isinstance(word, bool) else str(word) for word in words)
