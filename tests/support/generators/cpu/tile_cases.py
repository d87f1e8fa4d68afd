"""Kernels with software tiles that can be broken, and the problem in which every fault of them must show."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from fmha_cli.codegen.cpu.parts import source_text
from fmha_cli.domain.kernel import KernelSpec
from tests.support.builds.planted_cpu import NAMES, SWITCH, _with, choose, switch, switchable
from tests.support.fakes.software_tiles import TILE_FAULTS, software
from tests.support.generators.cpu.cases import FAULT_NEEDS, AttentionCase, complaints, make_data, run
from tests.support.models.faults import Fault, TileFault

UNCONFIGURED = "UNCONFIGURED"
"""The switch of a library whose tasks begin without the tiles' configuration."""

UNSCALED, NEAR_FLOATS, DISTANCE = "UNSCALED", "NEAR_FLOATS", "DISTANCE"
_BROKEN = {
    UNSCALED: ("", "all_ones(shrink + lane) && all_ones(shrink + lane + NL)", "true"),
    NEAR_FLOATS: ("", "job.threads * NEAR_FLOATS", "job.threads"),
    DISTANCE: ("Start", "{t.keys, TILE_ROWS, 0, j0}", "{t.keys, -TILE_ROWS, 0, j0}"),
}
"""The type of an expression if it needs to be named, the expression, and what a switch of :func:`breakable` puts in its place."""

PROBE = """
extern "C" EXPORT void probe(const TileConfig* config, const char* a, const char* b, char* c, int left) {
  load_tile_config(*config);
  tile_load(0, c, 64);
  tile_load(1, a, 64);
  tile_load(2, b, 64);
  tile_dot(0, left, 2);
  memset(c, 0xee, 1024);
  tile_store(0, c, 64);
  release_tiles();
}
extern "C" EXPORT void probe_exp2(const float* x, float* y, i64 n) {
  for (i64 i = 0; i < n; i += NL) vstore(y + i, vexp2(vload(x + i)));
}
"""


def unconfigured(text: str, file: str) -> str:
    """A kernel whose tasks, which are in one file of its sources, configure no tiles if a switch is on."""
    source = source_text(file)
    call, skipped = "  configure_tiles();\n", f"  if (!{SWITCH}{UNCONFIGURED}) configure_tiles();\n"
    assert call in source
    return switch(UNCONFIGURED) + _with(text, {source: source.replace(call, skipped)})


def faulty_tiles(kernel: KernelSpec, file: str) -> str:
    """Every fault and the missing configuration in one text with software tiles, which takes seconds to compile."""
    return unconfigured(software(kernel, switchable(kernel)), file)


def breakable(kernel: KernelSpec) -> str:
    """A prefill kernel with software tiles that :func:`~planted_cpu.choose` breaks, in blocks of the usual size, and with ``PROBE``."""
    changes = {
        right: f"({SWITCH}{name} ? {kind}{wrong} : {kind}{right})" for name, (kind, right, wrong) in _BROKEN.items()
    }
    text = _with(software(kernel), changes)
    return "".join(map(switch, _BROKEN)) + text + PROBE


def chosen(library: ctypes.CDLL, name: str | None) -> ctypes.CDLL:
    """The library with one switch on and the others off; what its tiles have noted is forgotten."""
    with suppress(ValueError):  # the processor's own tiles note nothing
        ctypes.c_int.in_dll(library, TILE_FAULTS).value = 0
    return choose(library, name, (*NAMES, UNCONFIGURED, *_BROKEN))


BASE = AttentionCase("bf16", heads=4, kv_heads=2, q_len=(40,), k_len=(150,), capacity=150, hdim=32, hdim_v=32)
NEEDS: dict[object, Mapping[str, Any]] = {
    **FAULT_NEEDS,
    TileFault.TILE_TAIL: {"right": -3},
}
"""What a problem needs for the fault to have an effect. Behind the last key of a sequence V is zero, so it hides what
weights hold there; a mask ends blocks at other keys.
"""


def check_fault(
    library: ctypes.CDLL,
    fault: Fault | TileFault,
    base: AttentionCase = BASE,
    needs: Mapping[object, Mapping[str, Any]] = MappingProxyType(NEEDS),
) -> None:
    """The problem passes in a library of ``switchable`` without the fault, and fails with it."""
    found = []
    for planted in (None, fault):
        case = replace(base, **needs.get(fault, {}), data={})
        make_data(case, np.random.default_rng(11))
        run(chosen(library, planted and planted.name), case)
        found.append(complaints(case))
    assert found[0] == []
    if fault is not Fault.LOW_PRECISION_ACC:  # its error is near the budget of bf16; the oracle's rules judge it
        assert found[1] != []
