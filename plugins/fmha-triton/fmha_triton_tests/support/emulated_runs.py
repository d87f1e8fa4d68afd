"""What the tests on emulated devices of both vendors share: problems, planted faults, and the run of one problem."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from fmha_triton import building
from fmha_triton.emit import emit

from fmha_cli import api

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or importlib.util.find_spec("cuda") is None,
    reason="Triton or cuda-python is not installed (pip install triton 'fmha[cuda]')",
)
FORWARD = "-H 2 -s 40 --seqlen-k 50 -d 64 --dtype fp16 --causal --lse"
PADDED = "-H 1 -s 33 --seqlen-k 40 -d 40 --dtype fp16 --lse"
DECODE = "-b 2 -H 4 --kv-heads 2 -s 1 --kv-cache paged:16 --cache-seqlens 50,21 -d 64 --dtype bf16 --splits 2 --lse"
BACKWARD = "-H 2 -s 33 --seqlen-k 40 -d 64 --dtype bf16 --causal --direction bwd"
PROBLEMS = (FORWARD, PADDED, DECODE, BACKWARD)
FAULTS = {
    "keys behind the end are loaded": (PADDED, "keep = first + tl.arange(0, R)[None, :] < length", "keep = first + tl.arange(0, R)[None, :] < length + 64"),
    "padding of the head dim is loaded": (PADDED, "keep = keep & (tl.arange(0, D)[:, None] < width)", "keep = keep"),
    "the mask is off by one": (FORWARD, "(j <= shifted + right)", "(j <= shifted + right + 1)"),
    "the maximum is not kept": (FORWARD, "alpha = exponential(top - safe, BIAS)", "alpha = exponential(top - top, BIAS)"),
    "the LSE is in bits": (FORWARD, "* LN2, float(\"-inf\"))", ", float(\"-inf\"))"),
    "a part of the keys is lost": (DECODE, "for part in range(splits):", "for part in range(1, splits):"),
    "the page is not looked up": (DECODE, "j // page, mask=j < keys", "j // page * 0, mask=j < keys"),
    "dK lacks the scale": (BACKWARD, "(dk * scale)", "(dk)"),
    "the sums are not subtracted": (BACKWARD, "- sums[:, None])", "- 0.0 * sums[:, None])"),
}  # fmt: skip


def drawn(cases: Sequence[tuple[str, ...]], count: int, seed: str) -> list[Any]:
    """The cases as parameters; ``count`` of them, the same for the same seed, are marked for CI."""
    chosen = Random(seed).sample(range(len(cases)), count)
    return [pytest.param(*case, marks=[pytest.mark.ci] if n in chosen else []) for n, case in enumerate(cases)]


def rows(archs: Sequence[str]) -> list[Any]:
    """Every problem on every architecture, one of each architecture for CI."""
    return [row for arch in archs for row in drawn([(arch, flags) for flags in PROBLEMS], 1, arch)]


def record(flags: str, arch: str, cache: str) -> api.Record:
    """The record of a problem on ``emu:ARCH``."""
    problem = api.Problem.from_cli(flags)
    (found,) = api.run(problem, backend="triton", device=f"emu:{arch}", cache_root=cache)
    return found


def assert_clean(found: api.Record) -> None:
    """It passed, and the emulator has no findings."""
    assert found.verdict is api.Verdict.PASSED, found.notes
    assert not found.findings


def plant(text: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, kernels are built with ``other`` where their text has ``text``, once."""

    def changed(kernel: api.KernelSpec) -> str:
        source = emit(kernel)
        assert source.count(text) == 1
        return source.replace(text, other)

    monkeypatch.setattr(building, "emit", changed)


def faulty(name: str, arch: str, cache: str, monkeypatch: pytest.MonkeyPatch) -> api.Record:
    """The record of a fault's problem with the fault in the kernels' text. Asserts that the text was there."""
    flags, text, other = FAULTS[name]
    planted = []

    def changed(kernel: api.KernelSpec) -> str:
        source = emit(kernel)
        planted.append(text in source)
        return source.replace(text, other)

    monkeypatch.setattr(building, "emit", changed)
    found = record(flags, arch, cache)
    assert any(planted)
    return found


def is_noticed(found: api.Record) -> bool:
    """Whether a fault was executed and found: by the numbers, or by the emulator."""
    return found.verdict not in (api.Verdict.PASSED, api.Verdict.BUILD_FAILED) or bool(found.findings)
