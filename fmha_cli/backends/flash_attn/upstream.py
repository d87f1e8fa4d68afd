"""FlashAttention-2 behind the interface of the layer that CUDA backends share."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType as Map

from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.own import own
from fmha_cli.domain.rules import Rule
from fmha_cli.domain.signature import MaskKey

_MIB = 2**20
_FILES = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_split",
    Family.FWD_SPLITKV_COMBINE: "fwd_split",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}
"""The ``direction`` in the name of the file whose launch code instantiates the kernel."""


class FlashAttention(CubinUpstream):
    """``csrc/flash_attn`` of flash-attn 2.8.3.post2, with the CUTLASS of the same archive."""

    name = NAME
    algorithm = FaAlgorithm
    dropout_stream = "fa2"
    source = "flash-attn"
    folders = Map({"flash": Path("csrc", "flash_attn", "src"), "cutlass": Path("csrc", "cutlass", "include")})
    home_option = "fa-home"
    as_option = "fa-as"
    known_files = "_flash_attn_files.json"
    # The shims come first because they replace headers of upstream and of the standard library.
    shims = Map({"nvrtc": ("common", "nvrtc"), "nvcc": ("common",)})
    # The flags for nvcc are those of setup.py, except -DNDEBUG, which upstream passes in hopper/setup.py ("Important,
    # otherwise performance is severely impacted"). NVRTC needs it because it declares assert itself: no header can turn
    # assert off.
    flags = Map(
        {
            "nvrtc": (
                "-std=c++17",
                "-use_fast_math",
                # NVRTC compiles no host code, so upstream's functions and constants without a mark are for the device.
                "-default-device",
                "-DNDEBUG",
            ),
            "nvcc": (
                "-std=c++17",
                "-O3",
                "--use_fast_math",
                "--expt-relaxed-constexpr",
                "--expt-extended-lambda",
                "-U__CUDA_NO_HALF_OPERATORS__",
                "-U__CUDA_NO_HALF_CONVERSIONS__",
                "-U__CUDA_NO_HALF2_OPERATORS__",
                "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
                "-DNDEBUG",
                "-w",
            ),
        }
    )
    # The peaks measured with NVRTC 13.0.88 over all head dims are 3244, 3070, 782, 968, 4892 and 1604 MiB. Other
    # features take a little more.
    compile_bytes = Map(
        {
            Family.FWD: 3900 * _MIB,
            Family.FWD_SPLITKV: 3900 * _MIB,
            Family.FWD_SPLITKV_COMBINE: 1200 * _MIB,
            Family.BWD_DOT_DO_O: 1200 * _MIB,
            Family.BWD_DQ_DK_DV: 5500 * _MIB,
            Family.BWD_CONVERT_DQ: 2000 * _MIB,
        }
    )

    kernels = own(".catalogue")
    refusals = own(".kernel_rules")
    situation_of = own(".situation")
    decide = own(".decide")
    plan_of = own(".plan")
    promises = own(".promises")
    params_of = own(".arguments")
    launch_of = own(".launches")
    expect_exports = own(".launches")
    list_zeroed = own(".launches")
    auxiliaries_of = own(".arguments")
    before_upload = own(".conversions")
    after_download = own(".conversions")
    emit = own("fmha_cli.codegen.flash_attn.emit")
    template = own("fmha_cli.codegen.flash_attn.instance")

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.flash_attn.kernel_rules import KERNEL_RULES
        from fmha_cli.backends.flash_attn.problem_rules import RULES

        return (*RULES, *KERNEL_RULES)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        """The stem of the instance file that compiles a kernel (``generate_kernels.py`` ``Kernel.filename``).

        Upstream compiles stage kernels in both the causal and the non-causal file; the result is the non-causal one.
        The names contain ``sm80`` for every architecture.
        """
        if kernel.family not in _FILES:
            return None
        s = kernel.signature
        causal = "causal_" if s.mask is MaskKey.CAUSAL else ""
        return f"flash_{_FILES[kernel.family]}_hdim{s.hdim}_{s.dtype.value}_{causal}sm80"


UPSTREAM = FlashAttention()
