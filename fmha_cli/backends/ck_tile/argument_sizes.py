"""Sizes of a kernel's explicit arguments, from the code object's metadata.

Source: LLVM, "User Guide for AMDGPU Backend", section "Code Object V5 Metadata" (``.args``).
"""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.toolchain.elf import Elf, MalformedObject
from fmha_cli.toolchain.rocm.metadata import metadata_of


def argument_sizes(code_object: bytes) -> Mapping[str, tuple[int, ...]]:
    """Kernel name -> bytes of each argument that the program passes, without the compiler's hidden arguments.

    Raises:
        MalformedObject: the bytes are not a code object, or its metadata lists no arguments.
    """
    metadata = metadata_of(Elf(code_object))
    try:
        return {
            str(kernel[".name"]): tuple(
                int(argument[".size"])
                for argument in kernel.get(".args", ())
                if not str(argument[".value_kind"]).startswith("hidden_")
            )
            for kernel in metadata["amdhsa.kernels"]
        }
    except (KeyError, TypeError, AttributeError) as fault:
        raise MalformedObject(f"the AMDGPU metadata lacks {fault}") from fault
