"""A ROCm root for a clang that lacks one: headers, device libraries, and control libraries that this tool makes.

The pinned parts lack three things. The ``oclc_*`` control libraries hold one constant each, which selects behaviour in
the device libraries. HIP's 16-bit headers are stubs, because Composable Kernel uses the compiler's own types. clang also
looks for some empty libraries. Source of the constants' names and types: ROCm's device-libs, ``oclc/``. Source of the
files that clang looks for: LLVM's ``RocmInstallationDetector``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.arch import arch_names, load_arch
from fmha_cli.domain.encode import digest_of
from fmha_cli.system.files import sync_folder
from fmha_cli.toolchain.cache.files import make_private_dir, remove_tree
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cpp.headers import tree_digest

_SWITCHES = {
    "finite_only": "finite_only_opt",
    "unsafe_math": "unsafe_math_opt",
    "daz_opt": "daz_opt",
    "correctly_rounded_sqrt": "correctly_rounded_sqrt32",
}
"""File name -> constant; each file comes as ``_on`` and ``_off``."""

_ABI_VERSIONS = (400, 500, 600)
_TRIPLE = "amdgcn-amd-amdhsa"

_STUB = """#pragma once
/* Takes the place of HIP's own header, which the parts of ROCm at hand lack.
   Composable Kernel uses the compiler's {type}, and of this header only that it brings assert(). */
#include <assert.h>
"""
STUBS: Mapping[str, str] = {"hip_fp16.h": _STUB.format(type="_Float16"), "hip_bfloat16.h": _STUB.format(type="__bf16")}


@dataclass(frozen=True)
class RocmParts:
    """The parts of ROCm that a clang of the system lacks, as files.

    Attributes:
        include: the folder that holds ``hip/``.
        ocml: the device library of mathematical functions.
        ockl: the device library of kernel functions.
        version: version of HIP.
        origin: where the parts come from.
    """

    include: Path
    ocml: Path
    ockl: Path
    version: str
    origin: str


@dataclass(frozen=True)
class RocmSupply:
    """The origin of the parts, before they are fetched.

    Attributes:
        identity: identifies the parts in advance, so a changed pin is noticed.
        get: fetches them; may raise EnvironmentProblem.
    """

    identity: str
    get: Callable[[], RocmParts]


def isa_versions() -> dict[str, int]:
    """Every AMD architecture that has facts, with its version in the numbering of the device libraries."""
    return {name: int(load_arch(name).fact("isa_version")) for name in arch_names() if name.startswith("gfx")}


def control_libraries(datalayout: str) -> Iterator[tuple[str, str]]:
    """File name (without ``.bc``) and LLVM assembly of every library that this tool makes."""
    # The explicit source name replaces the path of the input, which the assembler would record.
    head = f'source_filename = "oclc"\ntarget datalayout = "{datalayout}"\ntarget triple = "{_TRIPLE}"\n'

    def constant(name: str, kind: str, value: int) -> str:
        return f"@__oclc_{name} = linkonce_odr protected local_unnamed_addr addrspace(4) constant {kind} {value}\n"

    for file, name in _SWITCHES.items():
        yield f"oclc_{file}_on", head + constant(name, "i8", 1)
        yield f"oclc_{file}_off", head + constant(name, "i8", 0)
    for state, wide in (("on", 1), ("off", 0)):
        text = constant("wavefrontsize64", "i8", wide) + constant("wavefrontsize_log2", "i32", 5 + wide)
        yield f"oclc_wavefrontsize64_{state}", head + text
    for version in _ABI_VERSIONS:
        yield f"oclc_abi_version_{version}", head + constant("ABI_version", "i32", version)
    for arch, version in isa_versions().items():
        yield f"oclc_isa_version_{arch.removeprefix('gfx')}", head + constant("ISA_version", "i32", version)
    yield "hip", head
    yield "opencl", head


def root_key(parts: RocmParts, datalayout: str, assembler: str) -> str:
    """Digest of everything that determines a root's content.

    Args:
        assembler: version of the ``llvm-as`` that makes the control libraries.

    Raises:
        OSError: a part cannot be read.
    """
    files = [tree_digest(parts.include, ("*",)), tree_digest(parts.ocml.parent, (parts.ocml.name, parts.ockl.name))]
    made = dict(control_libraries(datalayout))
    return digest_of([files, made, dict(STUBS), parts.version, assembler, 1])


def place_root(layout: CacheLayout, key: str, fresh: Path) -> Path:
    """Move a finished root to its place in the cache, unless an equal one is already there.

    Raises:
        OSError: the cache cannot be written.
    """
    place = layout.toolchains / f"rocm-{key[:16]}"
    if place.is_dir() and tree_digest(place, ("*",)) == tree_digest(fresh, ("*",)):
        return place
    make_private_dir(place.parent)
    away = layout.new_tmp()
    if place.exists():
        make_private_dir(away.parent)
        place.rename(away)
    try:
        fresh.rename(place)
    except OSError:
        # Another process was first. Its root has the same key, so it is made of the same parts.
        if not place.is_dir():
            raise
    sync_folder(place.parent)
    remove_tree(away)
    return place


def lay_out(parts: RocmParts, datalayout: str, into: Path) -> dict[Path, Path]:
    """Write everything of a root except the assembled libraries into an empty folder.

    Returns:
        Assembly file -> library file that remains to be assembled from it. The assembly is outside ``into``.

    Raises:
        OSError: a part cannot be read, or the folder cannot be written.
    """
    shutil.copytree(parts.include, into / "include", symlinks=False)
    for name, text in STUBS.items():
        stub = into / "include" / "hip" / name
        if not stub.exists():
            stub.write_text(text, "ascii")
    bitcode = into / "amdgcn" / "bitcode"
    bitcode.mkdir(parents=True)
    for library in (parts.ocml, parts.ockl):
        shutil.copyfile(library, bitcode / library.name)
    version = into / "share" / "hip" / "version"
    version.parent.mkdir(parents=True)
    major, minor, patch = (parts.version.split(".") + ["0", "0"])[:3]
    version.write_text(f"HIP_VERSION_MAJOR={major}\nHIP_VERSION_MINOR={minor}\nHIP_VERSION_PATCH={patch}\n", "ascii")
    made = {}
    assembly = into.parent / "oclc"
    assembly.mkdir()
    for name, text in control_libraries(datalayout):
        source = assembly / f"{name}.ll"
        source.write_text(text, "ascii")
        made[source] = bitcode / f"{name}.bc"
    return made
