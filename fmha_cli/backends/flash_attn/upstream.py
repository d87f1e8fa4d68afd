"""FlashAttention-2 behind the interface of the layer that CUDA backends share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import MappingProxyType as Map
from typing import TYPE_CHECKING

from fmha_cli.backends.cuda.upstream import Upstream
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.codegen.flash_attn.algorithm import FaAlgorithm
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule
from fmha_cli.domain.signature import MaskKey

if TYPE_CHECKING:
    from fmha_cli.backends.cuda.launch import Launch
    from fmha_cli.backends.cuda.tables import Expected
    from fmha_cli.backends.flash_attn.situation import Situation
    from fmha_cli.backends.gpu.arena_views import Array, Bytes
    from fmha_cli.backends.gpu.call import Call

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


class FlashAttention(Upstream):
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

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        from fmha_cli.backends.flash_attn.catalogue import kernels

        return kernels(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        from fmha_cli.backends.flash_attn.kernel_rules import refusals

        return refusals(kernel)

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

    def template(self, kernel: KernelSpec) -> str:
        """The kernel's template-id with all arguments, as upstream's launch code writes it.

        Raises:
            ValueError: the kernel is not one of FlashAttention's.
        """
        from fmha_cli.codegen.flash_attn.instance import instance_of

        return instance_of(kernel).template_id

    def emit(self, kernel: KernelSpec) -> str:
        from fmha_cli.codegen.flash_attn.emit import emit

        return emit(kernel)

    def shim_folder(self, name: str) -> Path:
        from fmha_cli.codegen.flash_attn.emit import shims

        return shims(name)

    def expected(self, kernel: KernelSpec) -> Expected:
        from fmha_cli.backends.flash_attn.launches import expected

        return expected(kernel)

    def rules(self) -> tuple[Rule, ...]:
        from fmha_cli.backends.flash_attn.kernel_rules import KERNEL_RULES
        from fmha_cli.backends.flash_attn.problem_rules import RULES

        return (*RULES, *KERNEL_RULES)

    def situation_of(self, problem: Problem, device: DeviceFacts) -> Situation:
        from fmha_cli.backends.flash_attn.situation import situation_of

        return situation_of(problem, device)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        from fmha_cli.backends.flash_attn.decide import decide

        return decide(problem, device)

    def plan_of(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        from fmha_cli.backends.flash_attn.plan import plan_of

        return plan_of(problem, kernel, device)

    def params_of(self, stage: Stage, call: Call[Situation]) -> object:
        from fmha_cli.backends.flash_attn.arguments import params_of

        return params_of(stage, call)

    def launch_of(self, stage: Stage, call: Call[Situation]) -> Launch:
        from fmha_cli.backends.flash_attn.launches import launch_of

        return launch_of(stage, call)

    def auxiliaries_of(self, situation: Situation) -> dict[str, Array]:
        from fmha_cli.backends.flash_attn.arguments import auxiliaries_of

        return auxiliaries_of(situation)

    def zeroed(self, plan: Plan) -> tuple[str, ...]:
        from fmha_cli.backends.flash_attn.launches import zeroed

        return zeroed(plan)

    def launches(self, situation: Situation) -> bool:
        return situation.launches

    def before_upload(self, call: Call[Situation], arena: Bytes) -> None:
        from fmha_cli.backends.flash_attn.conversions import before_upload

        before_upload(call, arena)

    def after_download(self, call: Call[Situation], arena: Bytes) -> None:
        from fmha_cli.backends.flash_attn.conversions import after_download

        after_download(call, arena)


UPSTREAM = FlashAttention()
