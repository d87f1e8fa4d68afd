"""Compile one CUDA text to one cubin, through the cache."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.build.cache import Cache
from fmha_cli.build.cuda.flags import cuda_flags
from fmha_cli.build.cuda.packages import INSTALL_HELP
from fmha_cli.build.cuda.toolchain import CudaToolchain
from fmha_cli.build.kernel_build import BUILD_TIMEOUT_S, build_kernel
from fmha_cli.build.key import BuildKey, key_for
from fmha_cli.errors import EnvironmentProblem
from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact

_ARCH = re.compile(r"sm_(\d+)[af]?")


def knows(toolchain: CudaToolchain, arch: str) -> bool:
    """Whether a compiler compiles for an architecture; one that knows ``sm_90`` knows ``sm_90a``."""
    match = _ARCH.fullmatch(arch)
    return match is not None and int(match[1]) in toolchain.capabilities


def cuda_key(
    kernel: KernelSpec, text: str, toolchain: CudaToolchain, folders: Sequence[str], digests: Sequence[str]
) -> BuildKey:
    """The cache key of a kernel's cubin: the same on every machine with the same compiler and headers.

    Args:
        text: the whole translation unit.
        folders: names of the folders of headers that it includes beside CUDA's own, in the order of the search.
        digests: of what lies in them.

    Raises:
        EnvironmentProblem: the compiler does not know the architecture (B051).
    """
    if not knows(toolchain, kernel.arch):
        known = ", ".join(f"sm_{number}" for number in toolchain.capabilities)
        raise EnvironmentProblem(
            f"{toolchain.version} does not compile for {kernel.arch}",
            code="B051",
            where=kernel.name,
            why=f"it knows {known or 'no architecture'}",
            help=INSTALL_HELP,
        )
    flags = cuda_flags(toolchain.kind, kernel.arch, folders, toolchain.extra)
    return key_for(kernel, text, flags, toolchain, header_trees=digests)


def build_cuda(
    cache: Cache,
    key: BuildKey,
    toolchain: CudaToolchain,
    folders: Mapping[str, Path],
    *,
    timeout: float = BUILD_TIMEOUT_S,
    cancel: threading.Event | None = None,
) -> Artifact:
    """The cubin of a key of ``cuda_key``, from the cache or compiled now. Raises as ``build_kernel``.

    Args:
        folders: where the key's folders of headers lie here.
    """
    places = {**toolchain.places, **{name: str(path) for name, path in folders.items()}}
    return build_kernel(cache, key, toolchain, timeout=timeout, cancel=cancel, places=places)
