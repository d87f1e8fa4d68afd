"""Which of upstream's templates a kernel instantiates, and with which arguments.

Source, in ``csrc/flash_attn/src`` of flash-attn 2.8.3.post2:

- ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h``: the kernels and the device functions they call.
- ``kernel_traits.h``: the traits.
"""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
from fmha_cli.codegen.flash_attn.traits import FORWARD
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.signature import BiasKey, MaskKey, Need

TRAITS = "Traits"
"""The name of the alias for the kernel's traits."""

_ELEMENTS = {DType.FP16: "cutlass::half_t", DType.BF16: "cutlass::bfloat16_t"}


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One instance of one of upstream's kernels.

    Attributes:
        headers: upstream's headers, in the order of inclusion.
        traits: template-id of the kernel's traits.
        function: upstream's device function, in upstream's namespace.
        kernel: upstream's ``__global__`` function that calls it.
        arguments: its template arguments in order, ``TRAITS`` among them.
        block: the parameter block.
        grid_constant: whether upstream declares the block ``__grid_constant__``.
        smem: dynamic shared memory of the launch: a member of ``TRAITS``, empty for none.
        extra: (type, name) of each parameter that follows the block.
    """

    headers: tuple[str, ...]
    traits: str
    function: str
    kernel: str
    arguments: tuple[str, ...]
    block: type
    grid_constant: bool
    smem: str
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def template_id(self) -> str:
        """Upstream's kernel with all its arguments, as upstream's launch code writes it."""
        return f"{self.kernel}<{', '.join(self.traits if word == TRAITS else word for word in self.arguments)}>"


def template(kernel: KernelSpec) -> str:
    """The kernel's template-id with all arguments, as upstream's launch code writes it.

    Raises:
        ValueError: the kernel is not one of FlashAttention's.
    """
    return instance_of(kernel).template_id


def instance_of(kernel: KernelSpec) -> Instance:
    """The instance of upstream's kernel that corresponds to a kernel.

    Raises:
        TypeError: the kernel is not a FlashAttention kernel.
        ValueError: FlashAttention does not have the family or the type.
    """
    algorithm = kernel.algorithm
    if not isinstance(algorithm, FaAlgorithm):
        raise TypeError(f"{kernel.name} is not a FlashAttention kernel")
    if kernel.family not in _KERNELS or kernel.signature.dtype not in _ELEMENTS:
        raise ValueError(f"FlashAttention has no kernel {kernel.name}")
    function, symbol, smem = _KERNELS[kernel.family]
    forward = kernel.family in FORWARD
    main_backward = kernel.family is Family.BWD_DQ_DK_DV
    return Instance(
        headers=("flash_fwd_kernel.h",) if forward else _BACKWARD_HEADERS[: 2 if main_backward else 1],
        traits=_traits(kernel, algorithm),
        function=function,
        kernel=symbol,
        arguments=_arguments(kernel, algorithm),
        block=FaFwdParams if forward else FaBwdParams,
        grid_constant=forward or main_backward,
        smem=smem,
        extra=(("const int", "nsplits"),) if kernel.family is Family.BWD_CONVERT_DQ else (),
    )


_BACKWARD_HEADERS = ("flash_bwd_preprocess_kernel.h", "flash_bwd_kernel.h")
"""The second header calls dot_do_o of the first and does not include it."""
_KERNELS = {
    Family.FWD: ("compute_attn", "flash_fwd_kernel", "kSmemSize"),
    Family.FWD_SPLITKV: ("compute_attn_splitkv", "flash_fwd_splitkv_kernel", "kSmemSize"),
    Family.FWD_SPLITKV_COMBINE: ("combine_attn_seqk_parallel", "flash_fwd_splitkv_combine_kernel", ""),
    Family.BWD_DOT_DO_O: ("compute_dot_do_o", "flash_bwd_dot_do_o_kernel", ""),
    Family.BWD_DQ_DK_DV: (
        "compute_dq_dk_dv_seqk_parallel",
        "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
        "kSmemSize1colblock",
    ),
    Family.BWD_CONVERT_DQ: ("convert_dQ", "flash_bwd_convert_dq_kernel", "kSmemdQSize"),
}
"""``function``, ``kernel`` and ``smem`` of each family's instance."""


def _traits(kernel: KernelSpec, a: FaAlgorithm) -> str:
    forward = kernel.family in FORWARD
    # The two false are Is_Q_in_regs and Share_Q_K_smem, which upstream never turns on.
    flags = (False, False) if forward else (a.v_in_regs, a.single_buffer)
    size = (kernel.signature.hdim, *a.tile, a.warps, *a.atoms)
    words = (*map(str, size), *map(_flag, flags), _ELEMENTS[kernel.signature.dtype])
    return f"Flash_{'fwd' if forward else 'bwd'}_kernel_traits<{', '.join(words)}>"


def _arguments(kernel: KernelSpec, a: FaAlgorithm) -> tuple[str, ...]:
    s = kernel.signature
    match kernel.family:
        case Family.FWD:
            # The last one is Return_softmax, a debugging aid.
            return (TRAITS, _on(s.dropout), *_features(kernel, a), "false")
        case Family.FWD_SPLITKV:
            return (TRAITS, *_features(kernel, a), _on(s.split), _on(s.append))
        case Family.FWD_SPLITKV_COMBINE:
            return (TRAITS, str(a.combine_rows), str(a.log_max_splits), _flag(a.even_k))
        case Family.BWD_DOT_DO_O:
            return (_flag(a.clear_dq_accum), TRAITS)
        case Family.BWD_DQ_DK_DV:
            return (TRAITS, _on(s.dropout), *_features(kernel, a))
        case _:
            return (TRAITS,)


def _features(kernel: KernelSpec, a: FaAlgorithm) -> tuple[str, ...]:
    """Is_causal, Is_local, Has_alibi, Is_even_MN, Is_even_K, Is_softcap. Every main kernel has them in this order."""
    s = kernel.signature
    return (
        _flag(s.mask is MaskKey.CAUSAL),
        _flag(s.mask is MaskKey.WINDOW),
        _flag(s.bias is BiasKey.ALIBI),
        _flag(a.even_mn),
        _flag(a.even_k),
        _on(s.softcap),
    )


def _on(need: Need) -> str:
    return _flag(need is Need.YES)


def _flag(value: bool) -> str:
    return "true" if value else "false"
