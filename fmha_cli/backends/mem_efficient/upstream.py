"""Memory-efficient attention behind the interface of the layer that CUDA backends share."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType as Map

from fmha_cli.backends.cuda.small import SmallUpstream
from fmha_cli.codegen.mem_efficient.algorithm import NAME, MemEffAlgorithm
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.own import own

_FLAGS = ("-std=c++17", "-DNDEBUG", "-DHAS_PYTORCH")
"""``setup.py`` of xformers. Without ``HAS_PYTORCH`` forward kernels ignore dropout."""


class MemEfficient(SmallUpstream):
    """``xformers/csrc/attention/cuda/fmha`` of xformers 0.0.28.post3, with the CUTLASS of the same archive."""

    name, algorithm, dropout_stream = NAME, MemEffAlgorithm, "memeff"
    source = "xformers"
    folders = Map(
        {"fmha": Path("xformers/csrc/attention/cuda/fmha"), "cutlass": Path("third_party", "cutlass", "include")}
    )
    home_option, as_option, known_files = "xf-home", "xf-as", "_mem_efficient_files.json"
    shims = Map({"nvrtc": ("common", "std", "nvrtc"), "nvcc": ("common",)})
    flags = Map(
        {
            # NVRTC compiles no host code, so functions and constants without a mark are for the device.
            "nvrtc": (*_FLAGS, "-use_fast_math", "-default-device"),
            "nvcc": (*_FLAGS, "-O3", "--use_fast_math", "--expt-relaxed-constexpr", "-w"),
        }
    )
    compile_bytes = Map({Family.FWD: 512 << 20, Family.BWD_DQ_DK_DV: 512 << 20})  # measured: at most 388 MiB

    few = own(".decide", "FEW", called=False)
    kernels = own(".catalogue")
    profile_kernels = own(".catalogue")
    discord = own(".decide")
    launch = own(".arguments")
    scratch = own(".scratch")
    details = own(".arguments")
    params_of = own(".arguments")
    expect_exports = own(".arguments")
    auxiliaries_of = own(".arguments")
    before_upload = own(".conversions")
    after_download = own(".conversions")
    emit = own("fmha_cli.codegen.mem_efficient.emit")

    def upstream_name(self, kernel: KernelSpec) -> str:
        return traits_of(kernel).name

    def template(self, kernel: KernelSpec) -> str:
        return traits_of(kernel).template


UPSTREAM = MemEfficient()
