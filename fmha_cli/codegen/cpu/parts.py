"""What the texts of all CPU kernels share: files of C++, element types, constants."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from fmha_cli.domain.dtypes import DType

MAX_HDIM = 576
"""The largest head dim: that of absorbed multi-head latent attention. It is limited because the row-by-row path keeps one row
of sums on the stack (two in the backward kernels, 4.5 KiB)."""

ELEMENT = {DType.FP32: "float", DType.FP16: "f16", DType.BF16: "bf16"}
"""The C++ type of an element."""


@cache
def source_text(name: str) -> str:
    """One file of C++ text of this package."""
    return resources.files(__package__).joinpath("src", name).read_text("utf-8")


def constants(flags: Mapping[str, bool], sizes: Mapping[str, int]) -> list[str]:
    """Lines of C++: flags as macros, because the preprocessor asks for them, and sizes as an enum."""
    lines = [f"#define {name} {int(on)}" for name, on in flags.items()]
    return [*lines, f"enum {{ {', '.join(f'{name} = {value}' for name, value in sizes.items())} }};"]


def joined(parts: list[str]) -> str:
    """Parts of a source, each ending with one line break."""
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)
