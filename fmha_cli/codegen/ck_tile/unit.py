"""What a family gives to the translation unit."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.call import Call

ONLY = "  (void)a;\n  return use(std::type_identity<Kernel>{});\n"
"""One instance: nothing to choose."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The family's part of a translation unit.

    Attributes:
        types: C++ that ends in an alias ``Kernel``: the instance, or one that stands for all.
        call: how its arguments and its grid are made.
        in_waves: the block has one wave for each part of the tile, so that its threads halve with the wave.
        choose: C++ that reads the block as ``a`` and returns ``use(std::type_identity<INSTANCE>{})``: which of several
            instances is launched, as upstream chooses at run time.
    """

    types: str
    call: Call
    in_waves: bool
    choose: str = ONLY
