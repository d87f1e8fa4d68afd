"""The kernels of cudnn-frontend behind the interface of the layer that CUDA backends share."""

from __future__ import annotations

from types import MappingProxyType as Map

from fmha_cli.backends.cuda.small import SmallUpstream
from fmha_cli.codegen.cudnn_oss.facts import NAME, CudnnAlgorithm
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.own import own

_EMIT = "fmha_cli.codegen.cudnn_oss.emit"


class CudnnOss(SmallUpstream):
    """``generated/sdpa`` of nvidia-cudnn-frontend 1.28.0, the last release that has it."""

    name, algorithm, dropout_stream = NAME, CudnnAlgorithm, "fa2"  # without dropout
    source = "cudnn-frontend"
    shims = Map({"nvrtc": ()})
    # Upstream's, without macros that no text uses and a limit that __launch_bounds__ gives as well. -I. is the folder of
    # the text, which nvcc cannot read: it declares uint64_t and others again.
    flags = Map({"nvrtc": ("--std=c++17", "-w", "-default-device", "--use_fast_math", "-I.")})
    compile_bytes = Map({Family.FWD: 256 << 20})  # measured: at most 138 MiB

    few = own(".rules", "FEW", called=False)
    emit = own(_EMIT)
    derive_files = own(_EMIT)
    expect_exports = own(".launching")
    launch = own(".launching")
    scratch = own(".launching")
    params_of = own(".launching")
    after_download = own(".launching")


UPSTREAM = CudnnOss()
