"""The append kernel alone: new keys where they belong, rotated by their positions, and rotated queries."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fmha_cli.backends.cpu.arch_detect import ARCHS
from fmha_cli.codegen.abi import APPEND_ENTRY, EntryStatus, FmhaCpuAppendArgs
from fmha_cli.codegen.struct import pack
from tests.support.generators.cpu.cases import BEST, NUMPY, Load
from tests.support.models.faults import CacheFault

Array = npt.NDArray[Any]
HEADS, KV_HEADS, HDIM, HDIM_V, APPEND, QUERIES = 4, 2, 20, 12, 3, 5
HELD, LEFTPAD = (7, 0, 30), (2, 0, 5)
ULP = {"fp32": 2.0**-22, "fp16": 2.0**-10, "bf16": 2.0**-7}


@dataclass
class Appended:
    """A problem of three sequences, its tensors and what must become of them."""

    dtype: str
    page: int = 0
    rotary: int = 0
    interleaved: bool = False
    threads: int = 2

    def __post_init__(self) -> None:
        rng = np.random.default_rng(8)
        self.keys = tuple(n + APPEND for n in HELD)
        self.leftpad = (0, 0, 0) if self.page else LEFTPAD
        rows = max(n + pad for n, pad in zip(self.keys, self.leftpad, strict=True))
        self.table = np.full((3, rows + 1), -1, np.int32)
        if self.page:
            used = [-(-n // self.page) for n in self.keys]
            order = rng.permutation(sum(used))
            for b, count in enumerate(used):
                self.table[b, :count] = order[sum(used[:b]) :][:count]
            shape = (sum(used), self.page, KV_HEADS)
        else:
            shape = (3, rows, KV_HEADS)
        self.data = {
            name: rng.standard_normal(size, np.float32).astype(NUMPY[self.dtype])
            for name, size in {
                "q": (3, HEADS, QUERIES, HDIM),
                "k": (*shape, HDIM),
                "v": (*shape, HDIM_V),
                "k_new": (3, KV_HEADS, APPEND, HDIM),
                "v_new": (3, KV_HEADS, APPEND, HDIM_V),
            }.items()
        }
        self.data["q_rotated"] = np.full_like(self.data["q"], np.nan)

    def block(self, **changes: int) -> FmhaCpuAppendArgs:
        d, values = self.data, {}
        strides = {name: [s // d[name].itemsize for s in d[name].strides] for name in d}
        for name in ("q", "q_rotated", "k_new", "v_new"):
            values |= dict(zip((f"{name}_{a}_stride" for a in ("batch", "head", "row")), strides[name], strict=False))
        for name in ("k", "v"):
            outer, row, head, _ = strides[name]
            values |= {f"{name}_{'page' if self.page else 'batch'}_stride": outer}
            values |= {f"{name}_row_stride": row, f"{name}_head_stride": head}
        self.lengths = np.array([self.keys, self.leftpad], np.int64)
        pointers = {n: d[n].ctypes.data for n in ("q", "k", "v", "k_new", "v_new")}
        pointers |= {"q_rotated": d["q_rotated"].ctypes.data} if self.rotary else {}
        pointers |= {"k_len": self.lengths[0].ctypes.data, "k_start": self.lengths[1].ctypes.data}
        pointers |= {"block_table": self.table.ctypes.data} if self.page else {}
        return FmhaCpuAppendArgs(
            **({
                **pointers, **values, "o": 0, "batch": 3, "heads": HEADS, "kv_heads": KV_HEADS, "seqlen_q": QUERIES,
                "seqlen_k": max(self.keys), "hdim": HDIM, "hdim_v": HDIM_V, "scale": 1.0, "threads": self.threads,
                "append": APPEND, "rotary_dim": self.rotary, "interleaved": int(self.interleaved), "page": self.page,
                "block_table_stride": self.table.shape[1],
            } | changes),
        )  # fmt: skip

    def row(self, b: int, j: int) -> tuple[int, int]:
        """(page or sequence, row) of key j."""
        if self.page:
            return int(self.table[b, j // self.page]), j % self.page
        return b, self.leftpad[b] + j

    def turned(self, x: Array, position: int) -> Array:
        """Rows (..., HDIM) rotated by complex numbers, which is the definition of the embedding."""
        pairs = self.rotary // 2
        angles = position * 10000.0 ** (-2.0 * np.arange(pairs) / max(1, self.rotary))
        out = x.astype(np.float64)
        first = slice(0, self.rotary, 2) if self.interleaved else slice(0, pairs)
        second = slice(1, self.rotary, 2) if self.interleaved else slice(pairs, self.rotary)
        number = (out[..., first] + 1j * out[..., second]) * np.exp(1j * angles)
        out[..., first], out[..., second] = number.real, number.imag
        return out

    def wrong(self, before: dict[str, Array]) -> list[str]:
        """What is not as it must be after the launch."""
        found, wanted = [], {n: before[n].astype(np.float64) for n in ("k", "v")}
        for b, t in product(range(3), range(APPEND)):
            j = HELD[b] + t
            wanted["k"][self.row(b, j)] = self.turned(before["k_new"][b, :, t], self.leftpad[b] + j)
            wanted["v"][self.row(b, j)] = before["v_new"][b, :, t]
        if self.rotary:
            position = [self.leftpad[b] + self.keys[b] - QUERIES for b in range(3)]
            rows = [[self.turned(before["q"][b, :, i], position[b] + i) for i in range(QUERIES)] for b in range(3)]
            wanted["q_rotated"] = np.array(rows).transpose(0, 2, 1, 3)
        for name, values in wanted.items():
            error = np.abs(self.data[name].astype(np.float64) - values)
            if not (error <= ULP[self.dtype] * np.abs(values) + 1e-6).all():
                found.append(name)
        return found


def launch(load: Load, case: Appended, fault: CacheFault | None = None) -> list[str]:
    before = {name: array.copy() for name, array in case.data.items()}
    block = pack(case.block())
    assert load(BEST, case.dtype, "append", fault)[APPEND_ENTRY](ctypes.byref(block)) == EntryStatus.OK
    return case.wrong(before)


@pytest.mark.sampled(6, ci="all")
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("page", [0, 1, 16])
@pytest.mark.parametrize(("rotary", "interleaved"), [(0, False), (8, False), (8, True), (20, False), (20, True)])
def test_new_rows_and_queries(load: Load, dtype: str, page: int, rotary: int, interleaved: bool) -> None:
    assert launch(load, Appended(dtype, page, rotary, interleaved)) == []


@pytest.mark.parametrize("arch", ARCHS[1:])
def test_every_architecture(load: Load, arch: str) -> None:
    case = Appended("bf16", 16, 8)
    before = {name: array.copy() for name, array in case.data.items()}
    assert load(arch, "bf16", "append")[APPEND_ENTRY](ctypes.byref(pack(case.block()))) == EntryStatus.OK
    assert case.wrong(before) == []


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (CacheFault.ROTARY_OFF_BY_ONE, ["k", "q_rotated"]),
        (CacheFault.ROTARY_STYLE, ["k", "q_rotated"]),
        (CacheFault.APPEND_ROW, ["k", "v"]),
        (CacheFault.STALE_PAGE, ["k", "v"]),
    ],
)
def test_a_planted_fault_shows(load: Load, fault: CacheFault, seen: list[str]) -> None:
    case = Appended("fp32", 4, 8)
    case.data |= {name: np.pad(case.data[name], [(1, 0), *[(0, 0)] * 3])[1:] for name in ("k", "v")}
    assert launch(load, case) == []
    assert launch(load, case, fault) == seen


@pytest.mark.parametrize(
    "wrong",
    [{"rotary_dim": 7}, {"rotary_dim": HDIM + 2}, {"rotary_dim": 0}, {"q_rotated": 0}, {"k_new": 0}, {"seqlen_k": 2}],
    ids=str,
)
def test_wrong_arguments_are_refused(load: Load, wrong: dict[str, int]) -> None:
    block = Appended("fp32", 0, 8).block(**wrong)
    assert load(BEST, "fp32", "append")[APPEND_ENTRY](ctypes.byref(pack(block))) == EntryStatus.BAD_ARGUMENT
