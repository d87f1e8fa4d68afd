"""The parameter blocks: sizes, offsets, and the fields of upstream's own structs in their order."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest

from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams, MemEffFwdParams
from fmha_cli.codegen.struct import c_fields, ctypes_structure, host_layout, make_typed_rows, pack
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.sources.store import fetch_source

BLOCKS = {
    MemEffFwdParams: ("kernel_forward.h", 272, {"output_ptr": 72, "scale": 100, "bias_strideH": 160, "seed": 264}),
    MemEffBwdParams: ("kernel_backward.h", 432, {"scale": 136, "rng_engine_inputs": 200, "gB_strideH": 424}),
}
SPELLINGS = {"unsigned long long": "uint64_t", "accum_t": "float"}
POINTERS = {
    "int32_t": "int*",
    "accum_t": "float*",
    "lse_scalar_t": "float*",
    "output_accum_t": "float*",
    "int64_t": "int64_t*",
}


def fields_in(header: Path) -> list[tuple[str, str]]:
    """(C type of ours, name) of every member of ``Params`` in a header of upstream."""
    text = header.read_text()
    body = text[text.index("  struct Params {") :]
    body = re.sub(r"//[^\n]*", "", body[: body.index("dim3 getBlocksGrid")])
    found = re.findall(
        r"^    (?:const )?([\w:]+(?: long long)?)(\*?) (\w+)\s*(?:=[^;{]*(?:\{0, 0\})?)?;", body, re.MULTILINE
    )
    return [
        (POINTERS.get(kind, "void*") if star else SPELLINGS.get(kind, kind), name)
        for kind, star, name in found
        if kind != "return"
    ]


@pytest.mark.parametrize("block", BLOCKS)
def test_the_fields_are_upstreams(block: type, shared_cache: Path) -> None:
    try:
        tree = fetch_source("xformers", shared_cache, offline=False, notify=lambda notice: None)
    except EnvironmentProblem as fault:
        pytest.skip(f"upstream's headers are not here: {fault}")
    (header,) = tree.rglob(f"fmha/{BLOCKS[block][0]}")
    assert [(kind.spelling, name) for name, kind in c_fields(block)] == fields_in(header)


@pytest.mark.parametrize("block", BLOCKS)
def test_sizes_and_offsets(block: type) -> None:
    _, size, places = BLOCKS[block]
    assert ctypes.sizeof(ctypes_structure(block)) == size
    assert places.items() <= {name: offset for name, offset, _ in host_layout(block)}.items()


def test_values_arrive_where_the_fields_are() -> None:
    block = MemEffFwdParams(query_ptr=7, use_dropout=True, rng_engine_inputs=(2**63, 5), scale=0.5, custom_mask_type=2)
    raw = bytes(pack(block))
    assert (raw[0], raw[208], raw[124]) == (7, 1, 2)
    assert raw[100:104] == b"\0\0\0?"
    assert raw[232:256] == (2**63).to_bytes(8, "little") + (5).to_bytes(8, "little") + bytes(8)
    rest = set(range(len(raw))) - {0, 208, 124, 102, 103, 239, 240}
    assert not any(raw[place] for place in rest)
    assert not any(bytes(pack(MemEffBwdParams())))


def test_every_field_is_described_and_types_are_known() -> None:
    document = arch_document("_mem_efficient_params.json", "fmha.param-blocks/1")
    for name in ("fwd", "bwd"):
        assert all(len(row) == 3 for row in document[name])
    with pytest.raises(KeyError, match="unknown_t"):
        make_typed_rows([("unknown_t", "a b")], {})
    (row,) = make_typed_rows([("mine", "a b", "for people")], {"mine": (int, 3)})
    assert row == (int, "a b", 3)
