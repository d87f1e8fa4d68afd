"""Acceptance 5: ``validate`` catches every planted fault in the C++ source; without a fault, it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.cpu import building
from fmha_cli.backends.cpu.decide import DECODE_QUERIES
from fmha_cli.backends.cpu.kernels import algorithm_of
from fmha_cli.codegen.cpu.algorithm import LoopKind
from fmha_cli.codegen.cpu.emit import DECODE_ROWS
from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import ExitCode
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Verdict, exit_code_of
from fmha_cli.oracle.fills import fill
from fmha_cli.report.record import Record
from fmha_cli.run.request import Command, Request
from fmha_cli.run.run import Run
from tests.cli.conftest import Fmha
from tests.support.builds.planted_cpu import PLANTED, build_quickly, chosen_at_load
from tests.support.fakes.software_tiles import WHOLE
from tests.support.generators.campaign import can_matter, sample_problem
from tests.support.models.faults import BackwardFault, ByteFault, CacheFault, Fault
from tests.support.models.kernel_model import model_forward
from tests.support.pasting import words_after_fmha

MANY_KEYS = 600
"""Enough keys for many blocks: with a planted fault, the generator uses short blocks of a few register tiles."""

COPIES = 4

FORWARD_KINDS = (LoopKind.PREFILL, LoopKind.DECODE)

EACH = 3
"""Problems per fault and kind of kernel; CI tries the first, in fp32, on one kind."""
DEFAULT_EVERY = 9
"""The default suite plants every ninth fault, of which README's command runs one; CI plants the others afterwards. It is odd, so
that both kinds of kernel have one."""

Plant = Callable[[Fault | BackwardFault | ByteFault | CacheFault], None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """``plant(fault)``: from now on, every CPU kernel has the fault. All faults of a kernel are one compile, with -O1."""

    def put(fault: Fault | BackwardFault | ByteFault | CacheFault) -> None:
        build_quickly(monkeypatch)
        monkeypatch.setattr(building, "emit", chosen_at_load)
        monkeypatch.setenv(PLANTED, fault.name)

    return put


@pytest.fixture(scope="module")
def registry() -> Registry:
    return build_registry()


def problems_for(fault: Fault, dtype: DType, kind: LoopKind, count: int = EACH) -> list[Problem]:
    """Random problems whose result in the kernel model changes with the fault, drawn as the campaign draws them."""
    rng = np.random.default_rng([list(Fault).index(fault), list(DType).index(dtype), list(LoopKind).index(kind)])
    found: list[Problem] = []
    while len(found) < count:
        problem = sample_problem(rng, dtype, fault)
        if kind is LoopKind.DECODE:
            problem = _few_rows(problem)
        if fault is Fault.LOW_PRECISION_ACC:
            problem = _enlarged(problem)
        if can_matter(fault, problem) and _shows(fault, problem):
            found.append(problem)
    return found


def _few_rows(problem: Problem) -> Problem:
    """The problem with few enough query rows for a decode kernel."""
    rows = min(DECODE_QUERIES, DECODE_ROWS // (problem.heads // problem.kv_heads))
    lengths = None if problem.seqlens_q is None else tuple(min(rows, n) for n in problem.seqlens_q)
    return replace(problem, seqlen_q=max(lengths or (rows,)), seqlens_q=lengths)


def _enlarged(problem: Problem) -> Problem:
    """The problem with more rows and blocks of keys, so that rounding shows in the mean (``campaign.MANY_TILES``)."""
    rows, keys = problem.seqlens_q, problem.seqlens_k
    return replace(
        problem,
        batch=problem.batch * COPIES,
        seqlens_q=None if rows is None else rows * COPIES,
        seqlens_k=None if keys is None else tuple(MANY_KEYS + n for n in keys) * COPIES,
        seqlen_k=MANY_KEYS if keys is None else MANY_KEYS + max(keys),
    )


def _shows(fault: Fault, problem: Problem) -> bool:
    inputs = fill(problem)
    honest, faulty = model_forward(problem, inputs), model_forward(problem, inputs, fault=fault)
    return honest.o.tobytes() != faulty.o.tobytes() or honest.lse.tobytes() != faulty.lse.tobytes()


def validated(problems: list[Problem], registry: Registry, kind: LoopKind) -> Iterator[Record]:
    """The rows of ``fmha validate`` with all fills; asserts that each ran on the given kind of kernel."""
    request = Request(command=Command.VALIDATE, backend="cpu", arch=WHOLE[0], fills=FILLS, timeout=60.0)
    for record in Run(problems, request, registry).records():
        assert algorithm_of(registry.parse_kernel(record.kernel.name)).kind is kind
        yield record


def cases() -> Iterator[Any]:
    """A fault, dtype, count of problems and kind of kernel; CI plants every fault in one kind, by turns, the default suite some."""
    for number, fault in enumerate(Fault):
        marks = (pytest.mark.slow, pytest.mark.ci) if number % DEFAULT_EVERY else ()
        yield pytest.param(fault, DType.FP32, 1, FORWARD_KINDS[number % len(FORWARD_KINDS)], marks=marks)
        for dtype, kind in product((DType.FP32, DType.FP16, DType.BF16), FORWARD_KINDS):
            yield pytest.param(fault, dtype, EACH, kind, marks=pytest.mark.slow)


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize(("fault", "dtype", "count", "kind"), list(cases()))
def test_a_planted_fault_is_caught(
    registry: Registry, plant: Plant, fault: Fault, dtype: DType, count: int, kind: LoopKind
) -> None:
    problems = problems_for(fault, dtype, kind, count)
    for record in validated(problems, registry, kind):
        assert record.verdict is Verdict.PASSED, record.repro
    plant(fault)
    for record in validated(problems, registry, kind):
        assert record.verdict is Verdict.WRONG, f"{fault.value} is not seen in: {record.repro}"
        assert exit_code_of([record.verdict]) is ExitCode.WRONG
        assert len(record.comparisons) == len(FILLS)


BACKWARD = "-b 2 -H 4 --kv-heads 2 -s 40 --seqlen-k 150 -d 32 --hdim-v 24 --direction bwd"
NEEDS = {
    BackwardFault.WINDOW_SIDE: "--mask window:20,3",
    BackwardFault.MASK_OFF_BY_ONE: "--causal",
    BackwardFault.DROPOUT_INVERTED: "--dropout 0.3",
    BackwardFault.DROPOUT_OFFSET: "--dropout 0.3",
    BackwardFault.DV_KEEP_MISSING: "--dropout 0.3",
    BackwardFault.ALIBI_SIGN: "--alibi",
    BackwardFault.SLOPE_MISSING: "--softcap 1",
    BackwardFault.DBIAS_HEAD_LOST: "--bias elementwise --dbias",
    BackwardFault.DBIAS_ROWS_LOST: "--bias elementwise:111s --dbias -s 300",
    BackwardFault.V_COLUMNS: "--mla-rope 8",
    BackwardFault.DV_IN_K_LOST: "--mla-rope 8",
}
"""What a problem needs for the fault to have an effect."""

NEVER_SHOWN = {
    *(BackwardFault.LSE_LOG2, BackwardFault.EMPTY_ROW, BackwardFault.HIDDEN_LEAKS, BackwardFault.ZERO_WEIGHT),
}
"""Faults that need data which no fill has: a missing LSE, infinities, NaN. ``tests/backends/cpu`` shows them."""

IN_DEFAULT, IN_CI = (BackwardFault.DROPOUT_OFFSET, "fp32"), (BackwardFault.DK_WRONG_HEAD, "fp32")
"""The default suite plants the first, CI the second too; ``tests/backends/cpu`` shows all of them against the formula."""


def backward_cases() -> Iterator[Any]:
    for fault in sorted(set(BackwardFault) - NEVER_SHOWN):
        for dtype in ("fp32", "fp16", "bf16"):
            ci = (pytest.mark.ci,) if (fault, dtype) == IN_CI else ()
            yield pytest.param(fault, dtype, marks=() if (fault, dtype) == IN_DEFAULT else (pytest.mark.slow, *ci))


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("fault", "dtype"), list(backward_cases()))
def test_a_fault_planted_in_backward_is_caught(
    registry: Registry, plant: Plant, fault: BackwardFault, dtype: str
) -> None:
    problem = Problem.from_cli(f"{BACKWARD} --dtype {dtype} {NEEDS.get(fault, '')}")
    for record in validated([problem], registry, LoopKind.BACKWARD):
        assert record.verdict is Verdict.PASSED, record.comparisons
    plant(fault)
    for record in validated([problem], registry, LoopKind.BACKWARD):
        assert record.verdict is Verdict.WRONG, f"{fault.value} is not seen in: {record.repro}"


CACHE = "-b 2 -H 4 --kv-heads 2 -s 3 -d 32 --cache-seqlens 40,90"
CACHE_NEEDS = {
    CacheFault.STALE_PAGE: "--kv-cache paged:16",
    CacheFault.PAGE_TABLE_END: "--kv-cache paged:16",
    CacheFault.SPLIT_LOST: "--kv-cache paged:16 --splits 4",
    CacheFault.ROTARY_OFF_BY_ONE: "--kv-cache paged:16 --append 3 --rotary 16",
    CacheFault.ROTARY_STYLE: "--kv-cache linear --append 3 --rotary 16:interleaved",
    CacheFault.APPEND_ROW: "--kv-cache linear --append 2",
}


def cache_cases() -> Iterator[Any]:
    """The default suite plants the first fault; CI the others, in fp32."""
    for number, (fault, dtype) in enumerate((f, d) for d in ("fp32", "fp16", "bf16") for f in CacheFault):
        ci = (pytest.mark.ci,) if dtype == "fp32" else ()
        yield pytest.param(fault, dtype, marks=(pytest.mark.slow, *ci) if number else ())


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("fault", "dtype"), list(cache_cases()))
def test_a_fault_planted_around_a_cache_is_caught(
    registry: Registry, plant: Plant, fault: CacheFault, dtype: str
) -> None:
    problem = Problem.from_cli(f"{CACHE} --dtype {dtype} {CACHE_NEEDS[fault]}")
    kind = LoopKind.SPLIT if problem.splits > 1 else LoopKind.DECODE
    for record in validated([problem], registry, kind):
        assert record.verdict is Verdict.PASSED, record.comparisons
    plant(fault)
    caught = {Verdict.WRONG, *({Verdict.CRASHED} if fault is CacheFault.PAGE_TABLE_END else ())}
    caught |= (
        {Verdict.OUT_OF_BOUNDS} if fault is CacheFault.APPEND_ROW else set()
    )  # it changes a row that is not its own
    for record in validated([problem], registry, kind):
        assert record.verdict in caught, f"{fault.value} is not seen in: {record.repro}"


BYTES = "-b 2 -H 4 --kv-heads 2 -s {rows} -d 32 --cache-seqlens 300,90"
BYTE_NEEDS = {
    (ByteFault.WRONG_ENCODING, LoopKind.DECODE): "--kv-cache linear --kv-dtype fp8_e4m3 --dtype bf16",
    (
        ByteFault.WRONG_ENCODING,
        LoopKind.PREFILL,
    ): "--kv-cache paged:16 --kv-dtype fp8_e5m2 --fp8-encoding fnuz --dtype fp32",
    (ByteFault.SCALE_BLOCK, LoopKind.DECODE): "--kv-cache paged:16 --kv-dtype int8 --qscale kv-block --dtype fp16",
    (ByteFault.SCALE_BLOCK, LoopKind.PREFILL): "--kv-cache linear --qscale block --dtype fp8_e4m3:bf16",
}


def byte_cases() -> Iterator[Any]:
    """CI plants all but the first, which is in the default suite."""
    for number, (fault, kind) in enumerate(BYTE_NEEDS):
        yield pytest.param(fault, kind, marks=(pytest.mark.slow, pytest.mark.ci) if number else ())


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(("fault", "kind"), list(byte_cases()))
def test_a_fault_planted_in_8_bit_keys_is_caught(
    registry: Registry, plant: Plant, fault: ByteFault, kind: LoopKind
) -> None:
    rows = 2 if kind is LoopKind.DECODE else 40
    problem = Problem.from_cli(f"{BYTES.format(rows=rows)} {BYTE_NEEDS[fault, kind]}")
    for record in validated([problem], registry, kind):
        assert record.verdict is Verdict.PASSED, record.comparisons
    plant(fault)
    for record in validated([problem], registry, kind):
        assert record.verdict is Verdict.WRONG, f"{fault.value} is not seen in: {record.repro}"


@pytest.mark.slow
@pytest.mark.ci
def test_pasting_the_line_of_a_failure_shows_it_again(registry: Registry, plant: Plant, fmha: Fmha) -> None:
    fault = next(iter(Fault))  # its kernel was compiled for the default suite above
    problems = problems_for(fault, DType.FP32, LoopKind.PREFILL, 1)
    plant(fault)
    (first, *_) = validated(problems, registry, LoopKind.PREFILL)
    again = fmha(*words_after_fmha(first.repro), "--json")
    assert again.code == ExitCode.WRONG
    (record,) = again.document["records"]
    assert record == {
        **first.to_dict(),
        **{key: record[key] for key in ("stages", "log", "run", "started", "peak_bytes")},
    }
    shown = fmha(*words_after_fmha(first.repro))
    assert first.repro in shown.out + shown.err
