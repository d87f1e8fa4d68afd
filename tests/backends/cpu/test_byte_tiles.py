"""Tiles of decode kernels that widen bytes in their own registers: every byte in every column, and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.meanings import meanings
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.tensors import Element
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.tensors import Array
from tests.support.builds.planted_cpu import build_quickly

CACHES = ("int8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3 --fp8-encoding fnuz", "fp8_e5m2 --fp8-encoding fnuz")
LOOKED_UP, CONVERTED = "x86_64_v4_bf16", "x86_64_v3"
"""Architectures whose tiles look bytes up, and whose tiles convert them."""

ROWS = (1, 5, 9)
"""Rows of queries for each key/value head: one by one, four at a time and one, from eight on in tiles of keys widened before."""

SHAPES = (
    "-b 2 -H 2 -s {rows} -d 128 --kv-cache linear --cache-seqlens 301,1 --cache-leftpad 3,0 --qscale head --lse",
    "-b 2 -H 1 -s {rows} -d 8 --hdim-v 68 --kv-cache paged:3 --cache-seqlens 300,17 --qscale kv-block --causal --lse",
    "-b 2 -H 3 -s {rows} -d 100 --hdim-v 33 --kv-cache paged:16 --cache-seqlens 275,40 --mask window:40,0 --softcap 9",
    "-b 1 -H 2 -s {rows} -d 16 --hdim-v 160 --kv-cache linear --cache-seqlens 1100 --layout bshd --qscale block --dropout 0.2",
)
"""Whole steps, steps on several pages, odd last keys, and columns that fill no tile."""


def archs() -> Iterator[Any]:
    """The default suite has the best tiles that this machine runs; CI has those of AVX2 on machines with both."""
    both = LOOKED_UP in detect().archs
    for arch in (LOOKED_UP, CONVERTED):
        missing = pytest.mark.skipif(arch not in detect().archs, reason=f"this machine does not run {arch} kernels")
        yield pytest.param(
            arch, marks=(missing, *((pytest.mark.slow, pytest.mark.ci) if both and arch == CONVERTED else ()))
        )


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("arch", list(archs()))
def test_shapes(arch: str, rows: int) -> None:
    lines = [
        f"{shape.format(rows=rows)} --dtype bf16 --kv-dtype {kv}" for shape, kv in zip(SHAPES, CACHES[1:], strict=True)
    ]
    lines.append(f"{SHAPES[1].format(rows=rows)} --dtype bf16 --kv-dtype {CACHES[0]}")
    records = api.run(*(api.Problem.from_cli(line) for line in lines), backend="cpu", arch=arch, fills=("normal",))
    assert {r.repro: r.verdict for r in records} == {r.repro: api.Verdict.PASSED for r in records}
    assert len(records) == len(lines)


def values_as_read(arch: str, kv: str, rows: int) -> bool:
    """Whether O is the one visible row of V, bit by bit, for all bytes that mean numbers; the others make their column NaN or infinite.

    The keys of both halves of a pair are looked at: each of two launches gives all weight to one of them.
    """
    problem = api.Problem.from_cli(
        f"-b 2 -H 2 -s {rows} -d 64 --hdim-v 64 --kv-cache linear --cache-seqlens 2 --dtype bf16 --kv-dtype {kv}"
    )
    codes = np.array(meanings(Element.of_keys(problem)))
    inputs, one = fill(problem), int(np.nanargmin(abs(codes - 1)))
    inputs["q"][...] = 64
    every = np.arange(256, dtype=np.uint8).reshape(2, 2, 64)
    right = []
    for seen in (0, 1):
        for name in ("k", "v"):
            inputs[name].view(np.uint8)[...] = 0
        inputs["k"].view(np.uint8)[:, :, seen] = one
        inputs["v"].view(np.uint8)[:, :, seen] = every
        o = launched(arch, problem, inputs)["o"]
        expected = np.broadcast_to(codes[every][:, :, None], o.shape)
        finite = np.isfinite(expected)
        right.append(bool((o[finite] == expected[finite]).all() and not np.isfinite(o[~finite]).any()))
    return all(right)


def keys_as_read(arch: str, kv: str, rows: int) -> bool:
    """Whether the LSE over one key, of which each query sees one column, is what the byte there means."""
    problem = api.Problem.from_cli(
        f"-b 256 -H 1 -s {rows} -d 72 --kv-cache linear --cache-seqlens 1 --dtype bf16 --kv-dtype {kv} --scale 1 --lse"
    )
    codes = np.array(meanings(Element.of_keys(problem)))
    inputs, batch, column = fill(problem), np.arange(256), np.arange(256) * 5 % 72
    for name in ("q", "k", "v"):
        inputs[name].view(np.uint8)[...] = 0
    inputs["q"][batch, :, :, column] = 1
    inputs["k"].view(np.uint8)[batch, 0, 0, column] = batch
    lse = launched(arch, problem, inputs)["lse"]
    expected = np.broadcast_to(codes[:, None, None], lse.shape)
    finite = np.isfinite(expected)
    close = np.allclose(
        lse[finite], expected[finite], rtol=1e-6, atol=3e-7
    )  # the logarithm of a sum near 1 is off by 2^-23
    return bool(close and not np.isfinite(lse[~finite]).any())


def launched(arch: str, problem: api.Problem, inputs: dict[str, Array]) -> Mapping[str, Array]:
    """O and the LSE, whatever the verdict."""
    names = ("kv_cache", "kv_dtype", "fp8_encoding", "scale", "lse")
    flags = {name: value for name, value in problem.to_dict().items() if name in names}
    lengths = problem.cache_seqlens
    tensors = (inputs["q"], inputs["k"], inputs["v"])
    found = api.attention(*tensors, backend="cpu", arch=arch, cache_seqlens=lengths, **flags)
    return {name: array.astype(np.float64) for name, array in found.outputs.items()}


CHECKS: tuple[Callable[[str, str, int], bool], ...] = (values_as_read, keys_as_read)


def readings() -> Iterator[Any]:
    """All rows of two types, whose sign is a bit or not, are in the default suite, and one of each other type."""
    for number, kv in enumerate(CACHES):
        for rows in ROWS:
            first = number < 2 or rows == ROWS[number % 3]
            yield pytest.param(kv, rows, marks=() if first else (pytest.mark.slow, pytest.mark.ci))


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("kv", "rows"), list(readings()))
@pytest.mark.parametrize("arch", list(archs()))
@pytest.mark.parametrize("check", CHECKS)
def test_every_byte_is_read_as_it_means(check: Callable[[str, str, int], bool], arch: str, kv: str, rows: int) -> None:
    assert check(arch, kv, rows)


FAULTS = {
    LOOKED_UP: {
        "byte 0 is looked up": ("some = _mm512_test_epi8_mask(x, x)", "some = ~0ull"),
        "two's complement is taken for a sign": ("_mm512_mask_abs_epi8(x, w.whole, x)", "x"),
        "columns of queries in the order of memory": ("_mm512_shuffle_f32x4(a, b, 0x88)), vstore(q", "a), vstore(q"),
        "columns of O as tiles leave them": ("h < heads && DIRECT; ++h", "h < 0; ++h"),
        "keys of a pair exchanged": ("load_codes(a, some), load_codes(b, some)", "load_codes(b, some), load_codes(a, some)"),
    },
    CONVERTED: {
        "a NaN is converted": ("l.odd || !_mm256_testz_si256(over, over)", "l.odd"),
        "sizes are not doubled": ("_mm256_add_epi8(x, x)", "x"),
        "0x80 is always minus zero": ("by->whole || l.by->minus_zero", "by->whole || !l.by->minus_zero"),
        "the sign is a bit of the exponent": ("(short)(0x8000 | 0x7f << by.shift)", "(short)0xffff"),
        "O keeps the units of fp16": ("by.unit, 1 / by.unit", "1, 1"),
    },
}  # fmt: skip
"""What a fault replaces in the source, and by what."""


def faults() -> Iterator[Any]:
    """The default suite plants the first fault of the tiles that this machine runs, CI all."""
    for arch, found in zip((LOOKED_UP, CONVERTED), archs(), strict=True):
        for number, name in enumerate(FAULTS[arch]):
            more = (pytest.mark.slow, pytest.mark.ci) if number else ()
            yield pytest.param(arch, name, marks=(*found.marks, *more))


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(("arch", "name"), list(faults()))
def test_a_planted_fault_is_seen(monkeypatch: pytest.MonkeyPatch, arch: str, name: str) -> None:
    right, wrong = FAULTS[arch][name]

    def planted(kernel: KernelSpec) -> str:
        text = emit(kernel)
        assert right in text
        return text.replace(right, wrong)

    monkeypatch.setattr(building, "emit", planted)
    build_quickly(monkeypatch)
    caches = (*CACHES[:2], CACHES[3]) if arch == CONVERTED else CACHES[:2]
    assert not all(check(arch, kv, 1) for check in CHECKS for kv in caches)
