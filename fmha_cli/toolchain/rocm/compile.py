"""How one HIP text is compiled: to a library of host and device code, or to a bare code object.

The flags of a CK-Tile kernel are data, each with its source (``arch_specs/_hip_flags.json``). One option of LLVM that
upstream's CMakeLists.txt adds, about calls of functions, is left out: a compile by LLVM 22.1.8 did not end with it and the
inlining of everything, after which no call remains that it could forbid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fmha_cli.domain.arch import ArchSpec, arch_document
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.cache.key import BuildKey, key_for
from fmha_cli.toolchain.kernels import kernel_build
from fmha_cli.toolchain.rocm.candidates import INSTALL_HELP, RocmToolchain


@dataclass(frozen=True)
class CompilerFlag:
    """One flag: its words on the command line, and its source."""

    words: tuple[str, ...]
    source: str

    @property
    def text(self) -> str:
        """The words as one string: the flag's name in ``RocmToolchain.options``."""
        return " ".join(self.words)


def probed_flags() -> tuple[CompilerFlag, ...]:
    """Flags that fail the compile on compilers that do not know them. Each compiler is tried once."""
    return _group("probed")


def kernel_flags(family: str, supported: Collection[str]) -> tuple[CompilerFlag, ...]:
    """Flags for one family on every architecture, in order, without the flags that select a target or an output.

    Args:
        supported: texts of the ``probed_flags`` that the compiler accepts.
    """
    own = _group("backward" if family.startswith("bwd") else "forward")
    return (*_group("common"), *own, *(flag for flag in probed_flags() if flag.text in supported))


def words(flags: Iterable[CompilerFlag]) -> tuple[str, ...]:
    """The flags as a command line takes them."""
    return tuple(word for flag in flags for word in flag.words)


def _group(name: str) -> tuple[CompilerFlag, ...]:
    rows = arch_document("_hip_flags.json", "fmha.hip-flags/1")[name]
    return tuple(CompilerFlag(tuple(row["words"]), row["source"]) for row in rows)


COMPILE_BYTES = 1400 * 2**20
"""Memory that one compile of a CK-Tile kernel is assumed to need; a backward kernel with dropout took 1,175 MiB."""


class HipProduct(StrEnum):
    """The output of a compile."""

    LIBRARY = "library"
    """A shared library of host code that holds the device code. HIP's own symbols stay undefined in it."""
    CODE_OBJECT = "code-object"
    """The device code alone, as an ELF file for the GPU."""


def hip_flags(
    toolchain: RocmToolchain, arch: ArchSpec, family: str, product: HipProduct, headers: Mapping[str, Path]
) -> tuple[str, ...]:
    """The complete flags of one compile, places of this machine written as ``${name}`` (``hip_places``).

    Args:
        headers: short name (``ck``) -> folder of headers, in search order.

    Raises:
        EnvironmentProblem: the compiler does not know the architecture (B032).
    """
    if arch.name not in toolchain.archs:
        raise EnvironmentProblem(
            f"{toolchain.identity} does not know {arch.name}",
            code="B032",
            where="FMHA_HIPCC",
            why=f"{toolchain.version} knows {', '.join(toolchain.archs) or 'no AMD GPU'}",
            help=INSTALL_HELP,
        )
    # No id of the compilation unit: it would be derived from the folders' names and differ from cache to cache.
    target = ("-x", "hip", f"--offload-arch={arch.name}", "--rocm-path=${rocm}")
    outputs = {
        HipProduct.LIBRARY: ("-shared", "-fPIC", "-fvisibility=hidden", "-no-hip-rt", "-fuse-cuid=none"),
        HipProduct.CODE_OBJECT: ("--cuda-device-only", "--no-gpu-bundle-output"),
    }
    includes = [word for name in headers for word in (f"-I${{{name}}}", f"-ffile-prefix-map=${{{name}}}={name}")]
    return (*target, *outputs[product], *words(kernel_flags(family, toolchain.options)), *includes)


def hip_places(toolchain: RocmToolchain, headers: Mapping[str, Path]) -> dict[str, str]:
    """The folders that the names in ``hip_flags`` mean on this machine."""
    return {"rocm": str(toolchain.rocm_path), **{name: str(path) for name, path in headers.items()}}


def hip_key(
    kernel: KernelSpec,
    text: str,
    toolchain: RocmToolchain,
    arch: ArchSpec,
    *,
    headers: Mapping[str, tuple[Path, str]],
    product: HipProduct = HipProduct.LIBRARY,
) -> BuildKey:
    """The cache key of a kernel's library. It holds digests of headers, but not their paths.

    Args:
        text: the whole translation unit.
        headers: name -> (folder, digest of its content).

    Raises:
        EnvironmentProblem: the compiler does not know the architecture (B032).
    """
    folders = {name: path for name, (path, _) in headers.items()}
    flags = hip_flags(toolchain, arch, kernel.family.value, product, folders)
    return key_for(
        kernel_build(kernel, text), flags, toolchain, header_trees=[digest for _, digest in headers.values()]
    )
