"""Kernels whose parameters are the fields of the block: what is compared, where the bytes go, and what a dry run shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.backends.cuda.inspect import inspect
from fmha_cli.backends.cuda.launch import argument_bytes, pack_params
from fmha_cli.backends.cuda.small import SmallUpstream
from fmha_cli.backends.cuda.tables import Expected, check_exports
from fmha_cli.backends.cuda.tensor_maps import TensorMap
from fmha_cli.codegen import struct as forms
from fmha_cli.codegen.cudnn_oss.facts import kernels
from fmha_cli.codegen.struct import ArgumentBlock, Int32, Pointer, host_layout
from fmha_cli.domain.errors import KernelFailure
from fmha_cli.domain.plan import Artifact
from tests.support.builds.cubin_tiny import tiny_cubin
from tests.support.fakes.played_maps import played_map

KERNEL = kernels("sm_90a")[0]


class Block(ArgumentBlock):
    rows = ((Pointer, "p"), (forms.TensorMap, "map"), (Int32, "n"))


EXPECTED = Expected(symbol="upstreams_own", block=Block, separate=True, threads=128, shared_bytes=1000)
MAP = TensorMap(address=64, element="FLOAT16", shape=(64, 8), strides=(128,), box=(64, 8))


def cubin(*sizes: int, symbol: str = "upstreams_own", **changes: Any) -> bytes:
    return tiny_cubin(symbol, sizes, **{"accelerated": True, **changes})


def test_parameters_are_compared_by_their_sizes() -> None:
    found = check_exports(cubin(8, 128, 4), KERNEL, EXPECTED)
    assert found.fields == (("p", 0, 8), ("map", 8, 128), ("n", 136, 4))
    assert (found.smem_bytes, found.block_bytes, found.facts) == (1000, 140, {})
    for sizes in ((8, 128), (8, 128, 8), (8, 4, 128), (8, 128, 4, 4), (140,)):
        with pytest.raises(KernelFailure, match="does not match the host") as caught:
            check_exports(cubin(*sizes), KERNEL, EXPECTED)
        assert (caught.value.code, "its parameters have" in (caught.value.why or "")) == ("B061", True)


def test_names_limits_and_architectures_are_compared_as_ever() -> None:
    for raw, expected, code in (
        (cubin(8, 128, 4, symbol="another"), EXPECTED, "B060"),
        (cubin(8, 128, 4, accelerated=False), EXPECTED, "B060"),
        (cubin(8, 128, 4), replace(EXPECTED, shared_bytes=300_000), "B062"),
        (cubin(8, 128, 4), replace(EXPECTED, separate=False), "B060"),
    ):
        with pytest.raises(KernelFailure) as caught:
            check_exports(raw, KERNEL, expected)
        assert caught.value.code == code


@given(st.permutations(range(3)), st.integers(0, 200))
def test_bytes_go_where_the_cubin_says(order: list[int], gap: int) -> None:
    """Whatever places the compiler chose, each parameter is there, and what lies between is zero."""
    block = Block(p=0x1122334455667788, map=MAP, n=-2)
    layout = host_layout(Block)
    places, at = [], gap
    for index in order:
        name, _, size = layout[index]
        places.append((name, at, size))
        at += size + gap
    raw, host = argument_bytes(block, (), played_map, tuple(places)), bytes(pack_params(block, played_map))
    here = {name: host[offset : offset + size] for name, offset, size in layout}
    for name, offset, size in places:
        assert raw[offset : offset + size] == here[name]
    assert here["map"] == played_map(MAP)
    assert len(raw) == at - gap
    assert sum(raw) == sum(map(sum, here.values()))


def test_a_block_without_separate_parameters_is_as_before() -> None:
    block = Block(p=1, map=MAP, n=7)
    assert (
        argument_bytes(block, (5, -1), played_map)
        == bytes(pack_params(block, played_map)) + b"\5\0\0\0\xff\xff\xff\xff"
    )


class Small(SmallUpstream):
    """Only what ``inspect`` asks."""

    def expect_exports(self, kernel: object) -> Expected:
        return EXPECTED

    emit = params_of = launch = scratch = expect_exports  # type: ignore[assignment]


def test_inspection_needs_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "artifact"
    path.write_bytes(cubin(8, 128, 4, shared=24))
    found = inspect(Small(), KERNEL, Artifact(path, "0" * 64, "1" * 64, tmp_path / "log", False, 1.0))
    assert (found["shared_static_bytes"], found["shared_dynamic_bytes"], found["kernarg_bytes"]) == (24, 1000, 140)
    assert (found["template"], found["work_group"]) == ("upstreams_own", 128)
