"""Build the stand-in driver through the cache."""

from __future__ import annotations

from importlib import resources

from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.build.standin import build_standin_library
from fmha_cli.plan import Artifact
from fmha_cli.protocols import BuildContext


def source() -> str:
    """The stand-in's C++ text."""
    return resources.files("fmha_cli.backends.cuda.standin").joinpath("driver.cpp").read_text("utf-8")


def build_standin(context: BuildContext) -> Artifact:
    """The stand-in, from the cache or compiled now. Raises as ``build_standin_library``."""
    return build_standin_library("flash_attn", LIBRARY, source(), context)
