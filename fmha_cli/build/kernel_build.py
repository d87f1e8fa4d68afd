"""Build one kernel through the cache: the one call that a backend with a command-line compiler needs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from fmha_cli.build.cache import Cache
from fmha_cli.build.compile import compile_library
from fmha_cli.build.key import BuildKey, expanded
from fmha_cli.build.layout import ARTIFACT, LOG
from fmha_cli.build.product import BuildError, BuildProduct
from fmha_cli.build.toolchain import Compiler
from fmha_cli.plan import Artifact

BUILD_TIMEOUT_S = 600.0
"""Default time limit of one compile, in seconds."""


def build_kernel(
    cache: Cache,
    key: BuildKey,
    toolchain: Compiler,
    *,
    timeout: float = BUILD_TIMEOUT_S,
    cancel: threading.Event | None = None,
    places: Mapping[str, str] | None = None,
) -> Artifact:
    """The shared library of a key, from the cache or compiled now.

    Args:
        toolchain: the one that the key names.
        timeout: seconds for the compiler; waiting for another process's build is not counted.
        cancel: when set, the compiler is killed.
        places: what ``${name}`` in the key's flags stands for on this machine.

    Raises:
        ValueError: the key was made for another toolchain.
        KernelFailure: the compiler failed or ran out of time.
        EnvironmentProblem: the compiler cannot be started, or the cache cannot be written.
        Interrupted: ``cancel`` was set.
    """
    made_for = (key.toolchain_path, key.toolchain_version)
    if made_for != (toolchain.identity, toolchain.version):
        raise ValueError(f"the key of {key.kernel_name} was made for {key.toolchain_path}, not {toolchain.identity}")

    def builder(work: Path) -> BuildProduct:
        log = work / LOG
        flags = expanded(key.flags, places or {})
        result = compile_library(toolchain, key.source, flags, work / ARTIFACT, timeout, log, cancel)
        if not result.ok:
            raise BuildError(result.summary, why=result.why, log=log)
        return BuildProduct(result.out, log, result.seconds, result.peak_bytes)

    return cache.get_or_build(key, builder, cancel)
