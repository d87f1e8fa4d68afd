"""Variants of the kernel that splits keys over stages, with the combine kernel after them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.cpu import backend
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.backends.cpu.variants import variants
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.request import Request
from fmha_cli.run.run import Run


def parameters() -> list[Any]:
    """Every variant of this machine, one of them by default."""
    here = [arch for arch in backend.probe().devices[0].archs if load_arch(arch).backends.get("cpu", {}).get("tuning")]
    every = [k for arch in here for k in variants(load_arch(arch)) if algorithm_of(k).kind is LoopKind.SPLIT]
    sample = random.Random(7).sample(every, min(1, len(every)))
    return [
        pytest.param(k, id=f"{k.arch}-{k.digest[:8]}", marks=() if k in sample else pytest.mark.slow) for k in every
    ]


@pytest.mark.parametrize("kernel", parameters())
def test_split_and_combined(kernel: KernelSpec, shared_cache: Path) -> None:
    dtype = kernel.signature.dtype.value
    points = [
        Problem.of(seqlen=rows, seqlen_k=700, heads=4, kv_heads=2, hdim=hdim, dtype=dtype, splits=3, lse=True)
        for rows, hdim in ((1, 64), (9, 80))
    ]
    request = Request(backend="cpu", kernel=kernel.name, cache_root=str(shared_cache))
    records = Run(points, request, build_registry()).records()
    assert [record.verdict for record in records] == [Verdict.PASSED] * 2, [record.notes for record in records]
    assert {record.kernel.digest for record in records if record.kernel is not None} == {kernel.digest}
