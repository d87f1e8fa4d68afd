"""Compiler flags of a CK-Tile kernel. They are data, each with its source (``arch_specs/_hip_flags.json``).

One option of LLVM that upstream's CMakeLists.txt adds, about calls of functions, is left out: a compile by LLVM 22.1.8 did not end with it
and the inlining of everything, after which no call remains that it could forbid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fmha_cli.domain.arch import arch_document


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
