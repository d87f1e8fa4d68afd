"""The argument blocks: their layouts are as expected, and no field of the mirrored structs is missing."""

from __future__ import annotations

from dataclasses import fields

import pytest

from fmha_cli.codegen.ck_tile.args import FmhaCkFault, FmhaCkKarg, FmhaCkLaunch, args_of
from fmha_cli.codegen.struct import c_fields, host_layout, pack
from fmha_cli.domain.kernel import Family

BLOCKS = sorted(
    {args_of(family) for family in Family if family is not Family.FWD_PREPARE}
    | {FmhaCkFault, FmhaCkKarg, FmhaCkLaunch},
    key=lambda b: b.__name__,
)


@pytest.mark.parametrize("block", BLOCKS)
def test_sizes_and_strides_are_64_bit(block):
    for name, kind in c_fields(block):
        if name.startswith(("stride", "nhead", "batch", "split", "seqlen", "hdim", "window", "max_", "num_")):
            assert kind.spelling in ("int64_t", "const void*"), name


@pytest.mark.parametrize("block", BLOCKS)
def test_fields_lie_in_order_without_overlap(block):
    end = 0
    for _name, offset, size in host_layout(block):
        assert offset >= end
        end = offset + size


@pytest.mark.parametrize("block", BLOCKS)
def test_every_value_keeps_its_place(block):
    kinds = dict(c_fields(block))
    values = {f.name: (0.5 + i if kinds[f.name].spelling == "float" else i + 1) for i, f in enumerate(fields(block))}
    packed = pack(block(**values))
    assert {name: getattr(packed, name) for name in values} == values
