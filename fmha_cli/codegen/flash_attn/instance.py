"""Which of upstream's templates a kernel instantiates, and with which arguments.

Source, in ``csrc/flash_attn/src`` of flash-attn 2.8.3.post2:

- ``flash_fwd_launch_template.h`` and ``flash_bwd_launch_template.h``: the kernels and the device functions they call.
- ``kernel_traits.h``: the traits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.codegen.flash_attn.params import FaBwdParams, FaFwdParams
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


def instance_of(kernel: KernelSpec) -> Instance:
    """The instance of upstream's kernel that a kernel stands for.

    Raises:
        TypeError: the kernel is not a FlashAttention kernel.
        ValueError: FlashAttention does not have the family or the type.
    """
    algorithm = kernel.algorithm
    if not isinstance(algorithm, FaAlgorithm):
        raise TypeError(f"{kernel.name} is not a FlashAttention kernel")
    if kernel.family not in _INSTANCES or kernel.signature.dtype not in _ELEMENTS:
        raise ValueError(f"FlashAttention has no kernel {kernel.name}")
    return _INSTANCES[kernel.family](kernel, algorithm)


def _forward(kernel: KernelSpec, a: FaAlgorithm, name: str, arguments: tuple[str, ...], smem: str) -> Instance:
    # The two false are Is_Q_in_regs and Share_Q_K_smem, which upstream never turns on.
    size = (kernel.signature.hdim, *a.tile, a.warps)
    words = (*map(str, size), "false", "false", _ELEMENTS[kernel.signature.dtype])
    function, symbol = _FORWARD[name]
    return Instance(
        headers=("flash_fwd_kernel.h",),
        traits=f"Flash_fwd_kernel_traits<{', '.join(words)}>",
        function=function,
        kernel=symbol,
        arguments=arguments,
        block=FaFwdParams,
        grid_constant=True,
        smem=smem,
    )


_FORWARD = {
    "fwd": ("compute_attn", "flash_fwd_kernel"),
    "splitkv": ("compute_attn_splitkv", "flash_fwd_splitkv_kernel"),
    "combine": ("combine_attn_seqk_parallel", "flash_fwd_splitkv_combine_kernel"),
}
"""The device function and the kernel of each forward family."""


def _fwd(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    s = kernel.signature
    tail = (*_features(kernel, a), "false")  # Return_softmax, a debugging aid
    return _forward(kernel, a, "fwd", (TRAITS, _on(s.dropout), *tail), "kSmemSize")


def _splitkv(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    s = kernel.signature
    return _forward(kernel, a, "splitkv", (TRAITS, *_features(kernel, a), _on(s.split), _on(s.append)), "kSmemSize")


def _combine(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    words = (TRAITS, str(a.combine_rows), str(a.log_max_splits), _flag(a.even_k))
    return _forward(kernel, a, "combine", words, "")


def _backward(kernel: KernelSpec, a: FaAlgorithm) -> str:
    size = (kernel.signature.hdim, *a.tile, a.warps, *a.atoms)
    words = (*map(str, size), _flag(a.v_in_regs), _flag(a.single_buffer), _ELEMENTS[kernel.signature.dtype])
    return f"Flash_bwd_kernel_traits<{', '.join(words)}>"


def _dot_do_o(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    return Instance(
        headers=("flash_bwd_preprocess_kernel.h",),
        traits=_backward(kernel, a),
        function="compute_dot_do_o",
        kernel="flash_bwd_dot_do_o_kernel",
        arguments=(_flag(a.clear_dq_accum), TRAITS),
        block=FaBwdParams,
        grid_constant=False,
        smem="",
    )


def _dq_dk_dv(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    return Instance(
        # The second header calls dot_do_o of the first and does not include it.
        headers=("flash_bwd_preprocess_kernel.h", "flash_bwd_kernel.h"),
        traits=_backward(kernel, a),
        function="compute_dq_dk_dv_seqk_parallel",
        kernel="flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
        arguments=(TRAITS, _on(kernel.signature.dropout), *_features(kernel, a)),
        block=FaBwdParams,
        grid_constant=True,
        smem="kSmemSize1colblock",
    )


def _convert_dq(kernel: KernelSpec, a: FaAlgorithm) -> Instance:
    return Instance(
        headers=("flash_bwd_preprocess_kernel.h",),
        traits=_backward(kernel, a),
        function="convert_dQ",
        kernel="flash_bwd_convert_dq_kernel",
        arguments=(TRAITS,),
        block=FaBwdParams,
        grid_constant=False,
        smem="kSmemdQSize",
        extra=(("const int", "nsplits"),),
    )


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


_INSTANCES: dict[Family, Callable[[KernelSpec, FaAlgorithm], Instance]] = {
    Family.FWD: _fwd,
    Family.FWD_SPLITKV: _splitkv,
    Family.FWD_SPLITKV_COMBINE: _combine,
    Family.BWD_DOT_DO_O: _dot_do_o,
    Family.BWD_DQ_DK_DV: _dq_dk_dv,
    Family.BWD_CONVERT_DQ: _convert_dq,
}
