"""A recording stand-in for libamdhip64. CK's real host code runs against it if no device exists."""

from __future__ import annotations

from importlib import resources

from fmha_cli.backends.hip.standin import one_text
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cpp.library import build_standin_library
from fmha_cli.toolchain.rocm.installed import RUNTIME


def source() -> str:
    """The stand-in's C++ text: the HIP host API and the recorder behind it."""
    recorder = resources.files("fmha_cli.backends.ck_tile.standin").joinpath("recorder.cpp").read_text("utf-8")
    return one_text("recorder.cpp", recorder)


def build_standin(context: BuildContext) -> Artifact:
    """The stand-in, from the cache or compiled now. Raises what ``build_standin_library`` raises."""
    return build_standin_library("ck_tile", RUNTIME, source(), context)
