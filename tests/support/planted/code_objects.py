"""Convert a kernel to assembly text and a text to a code object, and put the object into the kernel's library."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fmha_cli.backends.ck_tile.building import CkWorkshop
from fmha_cli.codegen.ck_tile.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.plugin import load_arch
from fmha_cli.toolchain.cache.key import key_for
from fmha_cli.toolchain.cpp.library import build_kernel
from fmha_cli.toolchain.kernels import kernel_build
from fmha_cli.toolchain.rocm.compile import HipProduct, hip_flags, hip_places

_ENTRY = struct.Struct("<QQQ")
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"


def device_assembly(kernel: KernelSpec, shop: CkWorkshop) -> str:
    """The compiler's assembly text of a kernel, from the build cache or compiled now. Raises like ``build_kernel``."""
    folders = {name: folder for name, (folder, _) in shop.headers.items()}
    arch = load_arch(kernel.arch)
    flags = (*hip_flags(shop.toolchain, arch, kernel.family.value, HipProduct.CODE_OBJECT, folders), "-S")
    digests = [digest for _, digest in shop.headers.values()]
    key = key_for(kernel_build(kernel, emit(kernel)), flags, shop.toolchain, header_trees=digests)
    places = hip_places(shop.toolchain, folders)
    return build_kernel(shop.cache, key, shop.toolchain, places=places).path.read_text("utf-8")


def assembled(text: str, arch: str, compiler: Sequence[str], folder: Path) -> bytes:
    """A linked code object of an assembly text, without unused symbols.

    Raises:
        ValueError: the text does not assemble; the message is the assembler's.
    """
    source, out = folder / "planted.s", folder / "planted.co"
    source.write_text(text, "utf-8")
    target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}")
    command = (*compiler, "-x", "assembler", *target, str(source), "-Wl,-s", "-o", str(out))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip()[:400])
    return out.read_bytes()


def with_code_object(library: bytes, code: bytes) -> bytes:
    """A copy of a host library in which another code object, at most as long, replaces the single device code object.

    Raises:
        ValueError: it does not fit, or the library has no plain bundle.
    """
    start = library.find(_BUNDLE)
    if start < 0:
        raise ValueError("the library holds no plain offload bundle")
    place = start + len(_BUNDLE) + 8
    for _ in range(int.from_bytes(library[place - 8 : place], "little")):
        offset, size, length = _ENTRY.unpack_from(library, place)
        name = library[place + _ENTRY.size : place + _ENTRY.size + length]
        if b"amdgcn" in name and size:
            if len(code) > size:
                raise ValueError(f"a code object of {len(code)} bytes has no room in {size}")
            out = bytearray(library)
            out[start + offset : start + offset + size] = code.ljust(size, b"\0")
            _ENTRY.pack_into(out, place, offset, len(code), length)
            return bytes(out)
        place += _ENTRY.size + length
    raise ValueError("the bundle holds no code object for an AMD GPU")
