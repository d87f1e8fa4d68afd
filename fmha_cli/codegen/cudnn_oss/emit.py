"""The translation unit of a kernel. It includes upstream's text, which is cut out of a header when it is compiled, and
compares the text's constants with the facts."""

from __future__ import annotations

import re
from pathlib import Path

from fmha_cli.codegen.cudnn_oss.facts import facts_of
from fmha_cli.domain.errors import InternalError
from fmha_cli.domain.kernel import KernelSpec

FILE = "kernel.cuh"
FORM = 1  # raised when ``derive_files`` gives another text, because the key of a kernel holds the emitted unit alone
_LITERAL = r'R"KERNEL\((.*?)\)KERNEL"\s*'


def emit(kernel: KernelSpec) -> str:
    """The source of a kernel's cubin without upstream's text."""
    facts = facts_of(kernel)
    values = {"rows": facts.tile[0], "keys": facts.tile[1], "hdim": kernel.signature.hdim, "shared": facts.shared}
    head = f"// {kernel.name}\n// {facts.symbol}\n// {facts.variable} of {facts.file}, form {FORM}\n"
    asserts = (f'static_assert({text.format(**values)}, "arch_specs/_cudnn_oss.json");' for text in facts.asserts)
    return "\n".join((f'{head}#include "{FILE}"', *asserts, ""))


def derive_files(kernel: KernelSpec, tree: Path) -> dict[str, str]:
    """``FILE`` with upstream's text: the literals joined, as C++ does. ``tree`` is the folder of the unpacked wheel.

    Raises:
        InternalError: the header, whose digest is pinned, does not have it.
    """
    header, variable = tree / facts_of(kernel).file, facts_of(kernel).variable
    found = re.search(rf"char {variable}\[\] =\s*((?:{_LITERAL})+);", header.read_text("utf-8"), re.DOTALL)
    if found is None:
        raise InternalError(f"{variable} is not made of raw string literals", where=str(header))
    return {FILE: "".join(re.findall(_LITERAL, found[1], re.DOTALL))}
