"""The check that a code object takes the arguments that the host passes."""

from __future__ import annotations

from ctypes import sizeof
from typing import Any

from fmha_cli.codegen.struct import ctypes_structure
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.toolchain.rocm.metadata import KernelMetadata, kernels


def check_arguments(code: bytes, kernel: KernelSpec, symbol: str, params: Any) -> KernelMetadata:
    """The metadata of a kernel in a code object, if its arguments have the size of a block.

    Raises:
        KernelFailure: H009, the code object has no such kernel, or one that takes more or fewer bytes.
        MalformedObject: it cannot be read.
    """
    block: type = type(params)
    found, size = {one.name: one for one in kernels(code)}.get(symbol), sizeof(ctypes_structure(block))
    if found is None or found.kernarg_bytes != size:
        has = "no such kernel" if found is None else f"a kernel with {found.kernarg_bytes} bytes of arguments"
        raise KernelFailure(
            f"{kernel.family.value} takes other arguments",
            code="H009",
            where=kernel.name,
            why=f"the code object has {has}, and the host passes {size} bytes to {symbol}",
            help="fmha cache verify; fmha sources verify",
        )
    return found
