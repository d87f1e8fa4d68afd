"""Build what stands in for a device's runtime: a shared library of the runtime's own name, by the system's C++ compiler."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.build.cpp import build_cpp
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext
from fmha_cli.signature import Signature

FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden")


@dataclass(frozen=True, kw_only=True)
class StandinAlgorithm(Algorithm):
    """Nothing to choose; the library's name keeps the stand-in apart from kernels in the cache."""

    library: str


def build_standin_library(backend: str, library: str, source: str, context: BuildContext) -> Artifact:
    """The stand-in, from the cache or compiled now.

    Args:
        backend: whose kernels it watches.
        library: the real library's soname: whoever opens that name afterwards gets the one already loaded.
        source: its C++ text.

    Raises:
        KernelFailure: it does not compile.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
    """
    signature = Signature(dtype=DType.FP32, dtype_out=DType.FP32, hdim=0, hdim_v=0)
    spec = KernelSpec(
        backend=backend,
        family=Family.FWD,
        arch="generic",
        signature=signature,
        algorithm=StandinAlgorithm(library=library),
    )
    return build_cpp(spec, source, context, (*FLAGS, f"-Wl,-soname,{library}"))
