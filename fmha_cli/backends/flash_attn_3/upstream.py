"""FlashAttention-3 behind the interface of the layer that CUDA backends share."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType as Map

from fmha_cli.backends.cuda.upstream import CubinUpstream
from fmha_cli.codegen.flash_attn_3.algorithm import Fa3Algorithm
from fmha_cli.codegen.flash_attn_3.facts import NAME
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.own import own

_MIB = 2**20
_TREE = Path("third_party", "flash-attention")


class FlashAttention3(CubinUpstream):
    """``hopper/`` of FlashAttention, with the CUTLASS beside it, both from the sdist of xformers 0.0.34."""

    name, algorithm = NAME, Fa3Algorithm
    dropout_stream = "fa2"  # no kernel drops anything
    source = "flash-attn-3"
    home_option, as_option, known_files = "fa3-home", "fa3-as", "_flash_attn_3_files.json"
    folders = Map({"hopper": _TREE / "hopper", "cutlass": _TREE / "csrc" / "cutlass" / "include"})
    shims = Map({"nvrtc": ("common", "nvrtc")})
    # -DNDEBUG is upstream's, with the comment "Important, otherwise performance is severely impacted": calls of a failed
    # assertion serialise wgmma. NVRTC compiles no host code, so functions without a mark are for the device.
    flags = Map({"nvrtc": ("-std=c++17", "-use_fast_math", "-default-device", "-DNDEBUG")})
    # The peaks measured with NVRTC 13.0.88 are 4.0 GiB of a forward and 3.8 GiB of a backward kernel.
    compile_bytes = Map(
        {
            Family.FWD_PREPARE: 900 * _MIB,
            Family.FWD: 4100 * _MIB,
            Family.FWD_SPLITKV: 4100 * _MIB,
            Family.FWD_SPLITKV_COMBINE: 1200 * _MIB,
            Family.BWD_DOT_DO_O: 1200 * _MIB,
            Family.BWD_DQ_DK_DV: 4100 * _MIB,
            Family.BWD_CONVERT_DQ: 1900 * _MIB,
        }
    )

    kernels = own(".catalogue")
    profile_kernels = own(".catalogue")
    defects = own(".defects")
    refusals = own(".kernel_rules")
    rules = own(".problem_rules")
    upstream_name = own(".names")
    situation_of = own(".situation")
    decide = own(".decide")
    plan_of = own(".plan")
    params_of = own(".arguments")
    launch_of = own(".launches")
    expect_exports = own(".launches")
    compile_seconds = own("fmha_cli.codegen.flash_attn_3.facts")
    emit = own("fmha_cli.codegen.flash_attn_3.emit")
    derive_files = own("fmha_cli.codegen.flash_attn_3.emit")
    auxiliaries_of = own(".arguments")
    before_upload = own(".cache_tails")
    after_download = own(".cache_tails")
    template = own(".names")

    def instructions(self, kernel: KernelSpec) -> frozenset[str]:
        """Barriers in shared memory, which NVRTC's own assembler does not survive in part of the kernels."""
        return frozenset() if kernel.family is Family.FWD_PREPARE else frozenset({"barrier_set_up"})


UPSTREAM = FlashAttention3()
