"""Build the stand-in driver through the cache."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.backends.cuda.driver import LIBRARY
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cpp.library import build_standin_library

PARTS = tuple(Path(__file__).with_name(name) for name in ("tensor_map.hpp", "driver.cpp"))


def build_standin(context: BuildContext) -> Artifact:
    """The stand-in, from the cache or newly compiled. Raises like ``build_standin_library``."""
    return build_standin_library("flash_attn", LIBRARY, "".join(part.read_text("utf-8") for part in PARTS), context)
