"""How one CUDA text is compiled to one cubin, and the key of the result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cache.key import BuildKey, key_for
from fmha_cli.toolchain.cuda.packages import INSTALL_HELP
from fmha_cli.toolchain.cuda.probe import CudaKind, CudaToolchain
from fmha_cli.toolchain.kernels import kernel_build

_ARCH = re.compile(r"sm_(\d+)[af]?")
_RELOCATABLE = ("-c", "-dc", "-dlto", "-rdc", "--device-c", "--relocatable-device-code")


def knows(toolchain: CudaToolchain, arch: str) -> bool:
    """Whether a compiler compiles for an architecture. One that knows ``sm_90`` knows ``sm_90a`` too."""
    match = _ARCH.fullmatch(arch)
    return match is not None and int(match[1]) in toolchain.capabilities


def cuda_flags(toolchain: CudaToolchain, arch: str, own: Sequence[str], headers: Sequence[str]) -> tuple[str, ...]:
    """All flags of one compile, in order; folders of this machine are written as ``${name}``.

    Args:
        arch: architecture with its suffix.
        own: the flags of the kernel's project for this compiler.
        headers: names of folders, in search order; CUDA's own come last.

    Raises:
        ValueError: a flag requests relocatable code. An assembler that expects a link ignores ``setmaxnreg`` (C7504),
            serialises ``wgmma`` (C7512) and spills.
    """
    if relocatable := [flag for flag in own if flag.partition("=")[0] in _RELOCATABLE]:
        raise ValueError(f"kernels are never relocatable: {' '.join(relocatable)}")
    rest = (*own, *toolchain.extra)
    if toolchain.kind is CudaKind.NVCC:
        return ("--nvcc=${nvcc}", f"-arch={arch}", "-cubin", "-x", "cu", *rest, *_includes(headers))
    tools = ("--nvrtc=${nvrtc_library}", *(("--ptxas=${ptxas}",) if toolchain.ptxas else ()))
    return (*tools, f"-arch={arch}", *rest, *_includes((*headers, "cuda", "cccl")))


def _includes(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"-I${{{name}}}" for name in names)


def cuda_key(
    kernel: KernelSpec,
    text: str,
    toolchain: CudaToolchain,
    own: Sequence[str],
    folders: Sequence[str],
    digests: Sequence[str],
) -> BuildKey:
    """The cache key of a kernel's cubin: the same on every machine with the same compiler and headers.

    Args:
        text: the whole translation unit.
        own: the flags of the kernel's project for this compiler.
        folders: names of the folders of headers that it includes in addition to CUDA's own, in search order.
        digests: digests of their contents.

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
    flags = cuda_flags(toolchain, kernel.arch, own, folders)
    return key_for(kernel_build(kernel, text), flags, toolchain, header_trees=digests)
