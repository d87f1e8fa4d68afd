"""Build the stand-in driver with the system's C++ compiler, through the cache."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.build.cpp import build_cpp
from fmha_cli.dtypes import DType
from fmha_cli.kernel import Algorithm, Family, KernelSpec
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext
from fmha_cli.signature import Signature

FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}")
"""The name is the real library's, so that whoever opens that name afterwards gets the one already loaded."""


@dataclass(frozen=True, kw_only=True)
class StandinAlgorithm(Algorithm):
    """Nothing to choose; the name keeps the stand-in apart from kernels in the cache."""

    driver: str = "cuda-standin"


def source() -> str:
    """The stand-in's C++ text."""
    return resources.files("fmha_cli.backends.cuda.standin").joinpath("driver.cpp").read_text("utf-8")


def build_standin(context: BuildContext) -> Artifact:
    """The stand-in, from the cache or compiled now.

    Raises:
        KernelFailure: it does not compile.
        EnvironmentProblem: no C++ compiler, or the cache is unusable.
    """
    signature = Signature(dtype=DType.FP32, dtype_out=DType.FP32, hdim=0, hdim_v=0)
    spec = KernelSpec(
        backend="flash_attn", family=Family.FWD, arch="generic", signature=signature, algorithm=StandinAlgorithm()
    )
    return build_cpp(spec, source(), context, FLAGS)
