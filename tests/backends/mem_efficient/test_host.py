"""Upstream's host code of the memory-efficient kernels, compiled and run on this machine."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from fmha_cli.codegen.mem_efficient.params import MemEffBwdParams, MemEffFwdParams
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from tests.support.referees.xformers_host.client import Way, XformersHost
from tests.support.referees.xformers_host.program import host_program
from tests.support.referees.xformers_host.tables import dispatch_faults, fact_faults

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def host(shared_cache: Path) -> XformersHost:
    return XformersHost(host_program(shared_cache))


@pytest.mark.parametrize(("way", "block"), [("forward", MemEffFwdParams), ("backward", MemEffBwdParams)])
def test_the_structs_are_laid_out_as_the_product_packs_them(host: XformersHost, way: Way, block: type) -> None:
    layout = host.layout(way)
    assert layout.fields == {name: (offset, size) for name, offset, size in host_layout(block)}
    assert layout.size == ctypes.sizeof(ctypes_structure(block))


def test_the_facts_of_all_kernels_are_upstreams(host: XformersHost) -> None:
    kernels, faults = fact_faults(host)
    assert not faults, "\n".join(faults[:40])
    assert kernels == 45 + 162


def test_the_order_of_all_kernels_is_upstreams(host: XformersHost) -> None:
    lists, faults = dispatch_faults(host, "xformers")
    assert not faults, "\n".join(faults[:40])
    assert lists > 100
