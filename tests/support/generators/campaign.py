"""A test of the judging rules: small random problems, honest and faulty runs of the kernel model, each rule's verdict.

A seed determines everything. ``tests/checks/tolerance.py`` runs the campaign at full size and prints the tables of
``results/judging.md``; a test runs a small one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.features import Alibi
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.verdict import Check
from fmha_cli.oracle.budgets import ANY
from fmha_cli.oracle.fills import fill
from fmha_cli.oracle.gradients import backward
from fmha_cli.oracle.reference import Reference, forward
from fmha_cli.oracle.tensors import Inputs
from fmha_cli.oracle.tolerance import compare, compare_gradients
from tests.support.models.faults import ExtremeFault, Fault
from tests.support.models.kernel_model import Modelled, Style, model_forward
from tests.support.models.kernel_model_backward import model_backward

RULES = ("fixed rtol = atol (CK)", "row", "row, element, rms", "row and LSE", "all rules")
"""The names of the compared rules; the last one is the rule that ``compare`` applies."""

DTYPES = (DType.FP32, DType.FP16, DType.BF16)
FILLS = ("normal", "sparse_int", "coded", "ties", "large")
"""The fills, in the order in which the runs cycle through them. The published tables depend on it."""

CK = "ck_tile"
OTHERS = ((DType.FP16, CK), (DType.FP8_E4M3, ANY))
"""(dtype, backend) of honest kernels with separate budgets. ``ck_tile`` rounds P towards zero in fp16
(``cast_tile_pkrtz_fp16_fp32`` of ck_tile/core/tensor/tile_elementwise.hpp); the other has P in fp8.
"""

CPU = "cpu"
NARROW = (
    (DType.FP8_E4M3, CPU),
    (DType.FP8_E5M2, CPU),
    (DType.FP8_E5M2, ANY),
    (DType.MXFP8, ANY),
    (DType.MXFP4, ANY),
)
"""(dtype, backend) of further kernels with narrow inputs. The CPU's widen K and V to the last bit, and have P in bf16 or fp32;
the others have P in the inputs' type, MX in blocks of 32 keys."""

FP8_FLAGS = ("--dtype", "fp8_e4m3:bf16", "--qscale", "tensor")
FP8_STRETCH = 240.0
"""The largest number of e4m3 FNUZ; in OCP's range up to 448, it leaves room for dropout's factor."""

GROSS = frozenset(
    {
        Fault.TILE_SKIPPED,
        Fault.NAN_ROW,
        Fault.GQA_HEADS_SWAPPED,
        Fault.WINDOW_SIDE,
        Fault.LSE_LOG2,
        Fault.DROPOUT_INVERTED,
        Fault.ALIBI_SIGN,
        Fault.V_COLUMNS,
    }
)
"""Faults that mistake a whole tile, row, head, bound, term or unit for another."""

MANY_TILES, SMALL_TILE = 8, 16
"""From this number of key tiles on, a rounded accumulator is a fault; below, it errs about as honest kernels do."""

SIDES_APART = 8
"""If the window bounds are closer than this, an exchange affects only a few keys and is not a gross fault."""

RAISED = (0, 0, 15, 30, 45, 80)
"""The value that is added to filled learned sinks."""

CK_TOLERANCE = {
    DType.FP32: 1e-5,
    DType.FP16: 1e-3,
    DType.BF16: 1e-2,
    DType.FP8_E4M3: 16e-2,
    DType.FP8_E5M2: 16e-2,
    DType.MXFP8: 18e-2,
    DType.MXFP4: 26e-2,
}
"""rtol = atol of ROCm/composable_kernel ``example/ck_tile/01_fmha/fmha_fwd_runner.hpp`` ``get_elimit``."""


@dataclass(frozen=True)
class Run:
    """One run of the kernel model: its settings, its distance from each limit, and the rules that accept it.

    Attributes:
        row, element, rms: the largest error as a share of its budget; above 1 fails.
        lse: the largest error of LSE, relative to its allowance.
        accepted: rule name -> whether it lets the run pass, for the rules that could detect the fault at all.
        repro: the problem's flags.
    """

    dtype: str
    fill: str
    fault: str | None
    row: float
    element: float
    rms: float
    lse: float
    accepted: dict[str, bool]
    repro: str
    backend: str = ANY


def sample_problem(rng: np.random.Generator, dtype: DType, fault: Fault | None, *, extra: str = "") -> Problem:
    """A random small problem in which ``fault`` can matter; ``extra`` flags are appended."""
    groups, kv_heads = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    low_k = MANY_TILES * SMALL_TILE if fault is Fault.LOW_PRECISION_ACC else 16
    if fault is Fault.GQA_HEADS_SWAPPED:
        groups, kv_heads = max(2, groups), 2
    rows, keys = int(rng.integers(16, 161)), int(rng.integers(low_k, 161))
    kind = FP8_FLAGS if dtype is DType.FP8_E4M3 else ("--dtype", dtype.value)
    kind = ("--dtype", "fp8_e5m2:bf16", "--qscale", "head") if dtype is DType.FP8_E5M2 else kind
    words: list[Any] = [*kind, "-H", groups * kv_heads, "--kv-heads", kv_heads, "--lse"]
    words += ["-d", rng.choice([16, 32, 40, 64, 128]), "--hdim-v", rng.choice([16, 32, 40, 64, 128])]
    if fault is Fault.V_COLUMNS:
        words[-2:] = ["--mla-rope", rng.choice([4, 8, 12])]
    if rng.integers(5) == 0:
        words += ["--seqlens-q", f"{rows},{rng.integers(0, 40)}", "--seqlens-k", f"{keys},{rng.integers(1, 40)}"]
    else:
        words += ["-b", rng.integers(1, 3), "-s", rows, "--seqlen-k", keys]
    words += ["--layout", rng.choice(["bhsd", "bshd"]), "--mask", _mask(rng, fault)]
    return Problem.from_cli([*map(str, words), *_features(rng, fault), *extra.split()])


def _mask(rng: np.random.Generator, fault: Fault | None) -> str:
    left, right = (int(x) for x in rng.integers(0, 48, 2))
    windows = [f"window:{left},{right}", f"window-tl:{left},{right}"]
    if fault is Fault.WINDOW_SIDE:
        return windows[int(rng.integers(2))]
    if fault is Fault.LOW_PRECISION_ACC:
        return "none"
    return str(rng.choice(["none", "causal", "causal-tl", *windows, f"generic:{left + 1},{right + 1}"]))


def _features(rng: np.random.Generator, fault: Fault | None) -> list[str]:
    choices = {
        "plain": [],
        "alibi": ["--alibi"],
        "bias": ["--bias", f"elementwise:{rng.choice(['11ss', '1hss', 'bhss'])}"],
        "softcap": ["--softcap", "20"],
        "dropout": ["--dropout", "0.2", "--seed", str(rng.integers(2**62))],
        "sink": ["--sink", "3", "--sink-logits", "filled"],
    }
    forced = {Fault.ALIBI_SIGN: "alibi", Fault.DROPOUT_INVERTED: "dropout"}
    name = forced[fault] if fault in forced else str(rng.choice(["plain", "plain", *choices]))
    return choices[name]


def sample_style(
    rng: np.random.Generator, fault: Fault | None, dtype: DType | None = None, backend: str = ANY
) -> Style:
    """A random build style of the modelled kernel."""
    tile = SMALL_TILE if fault is Fault.LOW_PRECISION_ACC else int(rng.choice([SMALL_TILE, 32, 64]))
    style = Style(tile, bool(rng.integers(4)), bool(rng.integers(2)))
    if backend == CPU:
        return replace(style, p_type=DType(str(rng.choice(["bf16", "fp32"]))))
    if dtype in (DType.FP8_E5M2, DType.MXFP8, DType.MXFP4):
        return replace(style, round_p=True)
    if dtype is DType.FP8_E4M3:
        return replace(style, round_p=True, stretch_p=float(rng.choice([1.0, FP8_STRETCH])))
    return replace(style, truncate_p=True) if backend == CK and dtype is DType.FP16 else style


def can_matter(fault: Fault, problem: Problem) -> bool:
    """Whether the fault affects a feature that the problem has."""
    mask = problem.mask
    if fault is Fault.WINDOW_SIDE:
        return abs((mask.left or 0) - (mask.right or 0)) >= SIDES_APART
    if fault is Fault.GQA_HEADS_SWAPPED:
        return 1 < problem.kv_heads < problem.heads
    if fault is Fault.DROPOUT_INVERTED:
        return problem.dropout > 0
    if fault is Fault.ALIBI_SIGN:
        return problem.alibi is not Alibi.NONE
    if fault is Fault.LSE_LOG2:
        return problem.lse
    if fault is Fault.V_COLUMNS:
        return problem.v_in_k
    return True


def with_raised_sinks(rng: np.random.Generator, problem: Problem, inputs: Inputs) -> Inputs:
    """The inputs with learned sinks, where there are any, up to 80 above the scores: then all exponents are large."""
    if not problem.sink_logits:
        return inputs
    sinks = inputs["sink_logits"]
    raised = sinks.astype(np.float32) + rng.choice(RAISED, sinks.shape).astype(np.float32)
    return {**inputs, "sink_logits": raised.astype(sinks.dtype)}


def honest_run(seed: int, dtype: DType, kind: str, backend: str = ANY) -> Run:
    """One honest run of a kernel built as a backend builds its kernels, judged by the backend's budgets."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    problem = sample_problem(rng, dtype, None)
    inputs = with_raised_sinks(rng, problem, fill(problem, kind, seed))
    got = model_forward(problem, inputs, style=sample_style(rng, None, dtype, backend))
    return judged_run(problem, inputs, got, kind, None, forward(problem, inputs), backend)


def faulty_run(seed: int, dtype: DType, kind: str, fault: Fault, backend: str = ANY) -> Run:
    """One run with a fault, on the seed's first random problem whose output differs from the honest one."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    while True:
        problem = sample_problem(rng, dtype, fault)
        if not can_matter(fault, problem):
            continue
        inputs = fill(problem, kind, int(rng.integers(2**31)))
        style = sample_style(rng, fault, dtype, backend)
        honest, got = (
            model_forward(problem, inputs, style=style),
            model_forward(problem, inputs, fault=fault, style=style),
        )
        if honest.o.tobytes() != got.o.tobytes() or honest.lse.tobytes() != got.lse.tobytes():
            return judged_run(problem, inputs, got, kind, fault, forward(problem, inputs), backend)


def judged_run(
    problem: Problem,
    inputs: Inputs,
    got: Modelled,
    kind: str,
    fault: Fault | ExtremeFault | None,
    reference: Reference,
    backend: str = ANY,
) -> Run:
    """A forward run of the model as the rules see it."""
    checks = dict(compare(problem, got.o, got.lse, reference, fill=kind, backend=backend).checks)
    o, lse = checks["o"], checks["lse"]
    row, lse_good = o.nonfinite == 0 and o.row_l2 <= o.row_l2_budget, lse.passed
    actual = reference.rows.take(problem, got.o, problem.layout_out).astype(np.float64)
    tolerance = CK_TOLERANCE[problem.dtype]
    accepted = {
        "row and LSE": row and lse_good,
        "all rules": o.passed and lse_good,
    }
    if fault is Fault.LSE_LOG2:  # rules that look only at O cannot detect it
        return _run(problem, kind, fault, o, lse.row_l2, accepted, backend)
    accepted |= {
        "fixed rtol = atol (CK)": bool(np.allclose(actual, reference.o, rtol=tolerance, atol=tolerance)),
        "row": row,
        "row, element, rms": o.passed,
    }
    return _run(problem, kind, fault, o, lse.row_l2, accepted, backend)


def _run(
    problem: Problem,
    kind: str,
    fault: Fault | ExtremeFault | None,
    o: Check,
    lse: float,
    accepted: dict[str, bool],
    backend: str = ANY,
) -> Run:
    return Run(
        backend=backend,
        dtype=problem.dtype.value,
        fill=kind,
        fault=None if fault is None else fault.value,
        row=o.row_l2 / (o.row_l2_budget or 1),
        element=o.max_abs / (o.max_abs_budget or 1),
        rms=(o.rms or 0.0) / (o.rms_budget or 1),
        lse=lse,
        accepted=accepted,
        repro=problem.repro(),
    )


def gradient_runs(seed: int, dtype: DType, kind: str) -> list[tuple[str, Run]]:
    """One honest backward run: (tensor, run) pairs."""
    rng = np.random.Generator(np.random.PCG64([seed, 3]))
    problem = sample_problem(rng, dtype, None, extra="--direction bwd")
    inputs = with_raised_sinks(rng, problem, fill(problem, kind, seed))
    got = model_backward(problem, inputs, style=sample_style(rng, None))
    return gradient_checks(problem, inputs, got, kind, None)


def gradient_checks(
    problem: Problem, inputs: Inputs, got: Inputs, kind: str, fault: ExtremeFault | None
) -> list[tuple[str, Run]]:
    """Every gradient of a backward run, judged: (tensor, run) pairs."""
    comparison = compare_gradients(problem, got, backward(problem, inputs), fill=kind)
    return [
        (name, _run(problem, kind, fault, check, 0.0, {RULES[-1]: check.passed})) for name, check in comparison.checks
    ]


def plan_honest(count: int, first_seed: int = 0) -> Iterator[tuple[int, DType, str]]:
    """(seed, dtype, fill) of ``count`` honest runs that cycle through all combinations."""
    for n in range(count):
        yield first_seed + n, DTYPES[n % 3], FILLS[n // 3 % len(FILLS)]


def plan_others(count: int, first_seed: int = 0) -> Iterator[tuple[int, DType, str, str]]:
    """(seed, dtype, fill, backend) of ``count`` honest runs of kernels with separate budgets."""
    for n in range(count):
        yield first_seed + n, OTHERS[n % 2][0], FILLS[n // 2 % len(FILLS)], OTHERS[n % 2][1]


def plan_narrow(count: int, first_seed: int = 0) -> Iterator[tuple[int, DType, str, str]]:
    """(seed, dtype, fill, backend) of ``count`` honest runs of the kernels of ``NARROW``."""
    for n in range(count):
        yield first_seed + n, NARROW[n % 5][0], FILLS[n // 5 % len(FILLS)], NARROW[n % 5][1]


def plan_faulty(per_cell: int, first_seed: int = 0) -> Iterator[tuple[int, DType, str, Fault]]:
    """(seed, dtype, fill, fault): ``per_cell`` runs for every fault, fill and dtype."""
    seed = first_seed
    for fault in Fault:
        for kind in FILLS:
            for dtype in DTYPES:
                for _ in range(per_cell):
                    yield seed, dtype, kind, fault
                    seed += 1
