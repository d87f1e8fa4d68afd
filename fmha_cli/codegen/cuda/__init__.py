"""What the translation units of CUDA kernels have in common: headers in place of the standard library, exported tables.

``src/nvrtc`` replaces the standard library, which NVRTC does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from fmha_cli.codegen.struct import c_fields

VERSION = 1
"""The first word of the exported table of a parameter block: the version of its form."""
NVRTC = "nvrtc"
"""The name of the folder of headers."""


def shim_folder(name: str, package: str | None) -> Path:
    """The folder of headers of a name: ``NVRTC``, which all share, or a folder of ``src`` in a package."""
    home = __package__ if name == NVRTC else package
    return Path(str(resources.files(home or "").joinpath("src", name)))


def exports_text(symbol: str, block: type, facts: Sequence[str], shared_bytes: str) -> str:
    """The C definitions of what a cubin exports about itself (``cuda.tables`` describes it).

    The text before it defines ``Params``, whose fields are those of ``block``, and the macro ``FMHA_EXPORT``.
    In the name of a field ``__`` stands for a dot: it is a member of a struct inside ``Params``. The first
    member of such a struct has the alignment of the struct.

    Args:
        symbol: the kernel's name.
        facts: expressions of compile-time numbers.
        shared_bytes: the expression of the dynamic shared memory of a launch.
    """
    names = [name for name, _ in c_fields(block)]
    rows = "".join(f",\n  FMHA_FIELD({name.replace('__', '.')})" for name in names)
    numbers = ", ".join(f"(uint32_t){fact}" for fact in facts)
    return (
        "#define FMHA_FIELD(name) offsetof(Params, name), sizeof(((Params*)0)->name)\n"
        f"FMHA_EXPORT uint32_t {symbol}_abi_table[] = {{{VERSION}, sizeof(Params), {len(names)}{rows}}};\n"
        f'FMHA_EXPORT char {symbol}_abi_names[] = "{" ".join(names)}";\n'
        f"FMHA_EXPORT uint32_t {symbol}_facts[] = {{{numbers}, {shared_bytes}}};"
    )
