"""The whole command on a machine that has AMX, or seems to: random problems by the kernel with matrix tiles.

Its tiles are software. On a machine with AMX, they are those of the processor too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice

import pytest

from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.arch_detect import detect
from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import Availability, State
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from tests.support.fakes.software_tiles import AMX, HOST, VECTORS, WHOLE, software
from tests.support.generators.problems import supported

pytestmark = pytest.mark.skipif(
    HOST != VECTORS, reason="the kernel is compiled with its own flags, which need AVX512-BF16"
)
COMMON, MANY = 16, 400
LINES = (
    "-H 4 --kv-heads 2 -s 70 -d 64 --dtype bf16 --append 70 --rotary 64 --kv-cache paged:64 --cache-seqlens 500 --causal",
    "-H 4 --kv-heads 1 -s 40 -d 40 --hdim-v 72 --dtype bf16 --kv-cache linear --cache-seqlens 90 --cache-leftpad 7 --causal",
    "-H 2 -s 100 -d 80 --dtype bf16 --softcap 20 --dropout 0.2 --mask window:30,5 --sink 3 --lse",
    "-H 4 --kv-heads 2 -s 140 --seqlen-k 300 -d 40 --dtype fp8_e4m3:bf16 --qscale tensor --lse",
    "-b 2 -H 4 --kv-heads 2 -s 100 -d 33 --dtype fp8_e5m2:fp16 --qscale block --causal --lse",
    "-b 2 -H 2 -s 50 -d 64 --dtype bf16 --kv-dtype int8 --kv-cache paged:3 --cache-seqlens 200,50 --qscale kv-block --append 50 --causal",
    "-H 4 --kv-heads 1 -s 40 -d 288 --mla-rope 32 --kv-cache paged:16 --cache-seqlens 300 --dtype bf16 --causal --lse",
    "-H 4 --kv-heads 2 -s 300 -d 80 --hdim-v 48 --dtype bf16 --direction bwd --mask window:100,20 --dropout 0.2 --softcap 20 --bias elementwise --dbias",
    "-H 4 --kv-heads 1 -s 130 -d 576 --mla-rope 64 --dtype bf16 --direction bwd --causal",
    "--seqlens-q 290,40,17 -H 4 -d 96 --dtype bf16 --direction fwd+bwd --causal --alibi",
)
"""Stages of another architecture before the kernel's own, caches, features together, 8-bit inputs, V inside K, gradients."""


IN_CI = "processor" if AMX in detect().archs else "software"
"""CI runs the processor's tiles where there are some: ``tests/backends/cpu/test_tile_hardware.py`` finds the same bits in both."""

TILES = [pytest.param(kind, marks=pytest.mark.ci if kind == IN_CI else ()) for kind in ("software", "processor")]


@pytest.fixture(params=["software", "processor"])
def with_tiles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's facts with AMX before all else, and kernels with software tiles; or this machine as it is."""
    if request.param == "processor":
        if AMX not in detect().archs:
            pytest.skip("this machine has no AMX: NOT_RUN")
        return

    def text(kernel: KernelSpec) -> str:
        return software(replace(kernel, arch=HOST), emit(kernel)) if kernel.arch == AMX else emit(kernel)

    here = replace(detect(), archs=(AMX, *WHOLE))
    monkeypatch.setattr(CpuBackend, "probe", lambda self: Availability(state=State.OK, devices=(here,)))
    monkeypatch.setattr(building, "emit", text)


def fitting(first: int) -> Iterator[Problem]:
    """Random problems that the kernel serves."""
    for n in count(first):
        problem = supported(n)
        if problem.dtype is DType.BF16 and problem.splits <= 1:
            yield problem


def failing(problems: list[Problem], *, arch: str | None = AMX) -> Iterator[str]:
    request = Request(command=Command.RUN, backend="cpu", arch=arch, threads=2, timeout=60.0, jobs=1, peak="spec")
    for record in Run(problems, request, build_registry()).records():
        assert record.arch == AMX
        if record.verdict not in (Verdict.PASSED, Verdict.MISTRUSTED):
            yield f"{record.repro}\n    {record.verdict.value}: {'; '.join(record.notes) or record.comparisons}"


@pytest.mark.slow
@pytest.mark.parametrize("with_tiles", TILES, indirect=True)
def test_problems_of_every_kind(with_tiles: None) -> None:
    """The kernel with tiles is the first choice for them."""
    assert list(failing([Problem.from_cli(line) for line in LINES], arch=None)) == []


@pytest.mark.slow
@pytest.mark.parametrize("with_tiles", TILES, indirect=True)
def test_sample(with_tiles: None) -> None:
    assert list(failing(list(islice(fitting(0), COMMON)))) == []


@pytest.mark.slow
def test_many(with_tiles: None) -> None:
    assert list(failing(list(islice(fitting(10_000), MANY)))) == []


def test_stages_around_it_are_those_of_the_next_architecture(with_tiles: None) -> None:
    problem = Problem.from_cli(LINES[0])
    (device,) = CpuBackend().probe().devices
    (kernel,) = [d.kernel for d in CpuBackend().decide(problem, device) if isinstance(d, Supported) and d.arch == AMX]
    stages = CpuBackend().plan(problem, kernel, device).stages
    assert [(s.kernel.arch, dict(s.detail)["kind"]) for s in stages] == [
        (VECTORS, LoopKind.APPEND),
        (AMX, LoopKind.PREFILL),
    ]
