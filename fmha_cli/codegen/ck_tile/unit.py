"""The part of a translation unit that a family provides."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.call import Call

ONLY = "  (void)a;\n  return use(std::type_identity<Kernel>{});\n"
"""The choice in a library with a single instance."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The family's part of a translation unit.

    Attributes:
        types: C++ that ends in an alias ``Kernel``: the only instance, or one that represents all of them.
        call: how its arguments and its grid are made.
        in_waves: the block has one wave for each part of the tile, so 32-lane waves halve its number of threads.
        choose: C++ that selects the instance to launch, as upstream does at run time. It reads the block as ``a`` and
            returns ``use(std::type_identity<INSTANCE>{})``.
    """

    types: str
    call: Call
    in_waves: bool
    choose: str = ONLY
