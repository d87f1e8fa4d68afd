"""What a family gives to the translation unit."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.codegen.ck_tile.call import Call


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The family's part of a translation unit.

    Attributes:
        types: C++ that ends in an alias ``Kernel``.
        call: how its arguments and its grid are made.
        in_waves: the block has one wave for each part of the tile, so that its threads halve with the wave.
    """

    types: str
    call: Call
    in_waves: bool
