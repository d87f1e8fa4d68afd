"""Every opcode against a numpy formula from the document, on random and special values."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_nvptx_emu_tests.support.opcode_cases import F16, F32, OpcodeCase, cases
from fmha_nvptx_emu_tests.support.ptx_machine import Array, evaluate, opcodes

ELSEWHERE = {
    "ld", "ldu", "st", "prefetch", "atom", "red", "cp", "mma", "ldmatrix", "bra", "brx", "call", "ret", "exit", "bar", "barrier",
    "membar", "fence", "mbarrier", "wgmma", "stmatrix", "mapa", "getctarank", "elect", "setmaxnreg", "vote", "activemask", "redux", "griddepcontrol", "shfl", "trap", "nanosleep", "isspacep",
    "tcgen05", "clusterlaunchcontrol",
}  # fmt: skip
"""Opcodes that are not a function of their operands; other files of tests execute them."""

ROUNDS = 4


def special(dtype: Any) -> Array:
    """Values at which implementations differ."""
    if dtype is F32:
        words = [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x4F000000, 0xCF000000, 0x4F800000, 0x3F000000, 0x3FC00000, 0x40200000]  # fmt: skip
        return np.array(words, np.uint32).view(F32)
    if dtype is np.float64:
        return np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e300, 1e-300, 3.4028236e38, 1e-40])
    limits = np.iinfo(dtype)
    return np.array([0, 1, limits.max, limits.min, limits.max - 1, limits.min + 1, 7, 31, 32], dtype)


def drawn(kind: Any, random: np.random.Generator) -> Array:
    """32 values of one kind of input."""
    if kind is bool:
        return random.integers(0, 2, 32).astype(bool)
    if kind == "shift":
        return random.choice(np.array([0, 1, 5, 8, 15, 16, 31, 32, 33, 63, 64, 200], np.uint32), 32)
    if kind == "near":
        return random.uniform(-4, 4, 32).astype(F32)
    if kind == "pairs":
        return random.uniform(-4, 4, 64).astype(F32).view(np.uint64)
    if kind in ("half", "halves"):
        count = 32 if kind == "half" else 64
        words = random.integers(0, 1 << 16, count).astype(np.uint16)
        return words if kind == "half" else words.view(np.uint32)
    if kind is F32:
        values = np.concatenate(
            [random.integers(0, 1 << 32, 16, np.uint32).view(F32), random.normal(0, 3, 16).astype(F32)]
        )
    elif kind is np.float64:
        values = random.normal(0, 1e3, 32)
    else:
        limits = np.iinfo(kind)
        values = random.integers(limits.min, limits.max, 32, kind, endpoint=True)
    places = random.random(32) < 0.4
    values[places] = random.choice(special(kind), int(places.sum()))
    return values


def assert_same(got: Array, wanted: Array, ulps: int, text: str, inputs: list[Array]) -> None:
    if got.dtype.kind != "f":
        bad = got != wanted
    else:
        both_nan = np.isnan(got) & np.isnan(wanted)
        words = {2: np.int16, 4: np.int32, 8: np.int64}[got.dtype.itemsize]
        near = (
            np.abs(got.view(words).astype(np.int64) - np.asarray(wanted, got.dtype).view(words).astype(np.int64))
            <= ulps
        )
        bad = ~(both_nan | near)
    assert not bad.any(), (
        text,
        [x[bad[: len(x)]][:3] if len(bad) == len(x) else x for x in inputs],
        got[bad][:3],
        wanted[bad][:3],
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.text.replace(" ", ""))
def test_an_opcode_equals_its_formula(case: OpcodeCase) -> None:
    for seed in range(ROUNDS):
        random = np.random.default_rng([seed, len(case.text)])
        inputs = [drawn(kind, random) for kind in case.inputs]
        with np.errstate(all="ignore"):
            wanted = np.asarray(case.formula(*inputs))
        if case.dtype == "bf16":
            got = evaluate(case.text, inputs, case.result, ml_dtypes.bfloat16).astype(F32)
            wanted = wanted.astype(ml_dtypes.bfloat16).astype(F32)
        else:
            got = evaluate(case.text, inputs, case.result, case.dtype)
            if case.dtype is F16:
                wanted = wanted.astype(F16)
        assert_same(got, wanted, case.ulps, case.text, inputs)


def test_every_row_of_the_table_is_tested_and_names_its_section() -> None:
    table = opcodes()
    assert set(table) == {case.root for case in cases()} | ELSEWHERE
    assert all(section.startswith("9.7.") for section in table.values())


def test_the_reference_page_has_the_rows_of_the_table() -> None:
    """``docs/reference/instructions.md`` is made from the C++ text, without a compiler."""
    from tools.reference.instructions import NVIDIA
    from tools.reference.opcodes import instructions

    read = {name: where for file in sorted(NVIDIA.glob("op_*.cpp")) for name, where in instructions(file).items()}
    assert read == opcodes()
