"""Each hazard of upstream's kernels, planted: the model shows it, and the host avoids it or refuses the problem."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fmha_cli.backends.cuda import copies, staging
from fmha_cli.backends.cuda.staging import Staging
from fmha_cli.backends.mem_efficient import arguments, conversions, scratch
from fmha_cli.backends.mem_efficient.scratch import COPIES
from fmha_cli.backends.mem_efficient.upstream import UPSTREAM
from fmha_cli.domain.decision import Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.plan import Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.oracle import reference
from tests.support.models import modelled_run
from tests.support.models.kernel_memory import BadAddress
from tests.support.models.mem_efficient.chain import plans_of, run_plan

pytestmark = pytest.mark.promise(
    "Without a GPU, stand-in drivers, models and emulators prove launches, parameters and numbers."
)

DEVICE = DeviceFacts.of_arch("sm_80")
BWD = "--direction bwd"


def best(line: str) -> Plan:
    return plans_of(Problem.from_cli(line), DEVICE)[0]


def forced(line: str, stand_in: str) -> Plan:
    """The plan of a refused problem, with the kernel that serves another one."""
    problem = Problem.from_cli(line)
    assert not [d for d in UPSTREAM.decide(problem, DEVICE) if isinstance(d, Supported)]
    return UPSTREAM.plan_of(problem, best(stand_in).main, DEVICE)


def passes(plan: Plan, change: Callable[[Stage, ctypes.Structure], None] | None = None, kind: str = "normal") -> bool:
    return run_plan(plan, DEVICE, change=change, kind=kind).passed


def is_noticed(plan: Plan, change: Callable[[Stage, ctypes.Structure], None] | None = None) -> bool:
    """Whether the result is wrong, or the model stops: at a lock that nobody releases, or an address outside every tensor."""
    try:
        return not passes(plan, change)
    except (AssertionError, BadAddress):
        return True


def setting(**values: Any) -> Callable[[Stage, ctypes.Structure], None]:
    def change(stage: Stage, block: ctypes.Structure) -> None:
        for name, value in values.items():
            setattr(block, name, value)

    return change


@pytest.mark.parametrize(
    ("line", "neighbour"),
    [
        ("-b 1 -H 1 -s 130 --seqlen-k 60 -d 32 --causal", "-b 1 -H 1 -s 60 --seqlen-k 130 -d 32 --causal"),
        (
            f"-b 1 -H 1 -s 60 --seqlen-k 130 -d 32 --mask window:20,0 {BWD}",
            f"-b 1 -H 1 -s 130 --seqlen-k 130 -d 32 --mask window:20,0 {BWD}",
        ),
    ],
    ids=["bottom-right with more rows than keys", "backward windows"],
)
def test_refused_masks_would_be_wrong(line: str, neighbour: str) -> None:
    assert not passes(forced(line, neighbour))
    assert passes(best(neighbour))


def test_a_scale_below_0_would_lose_maxima_of_minus_0() -> None:
    """Without rows of Q that are 0 no score is -0.0; ``means`` has nothing else."""
    line = "-b 1 -H 1 -s 9 --seqlen-k 20 -d 32 --lse"
    assert not passes(forced(f"{line} --scale -0.5", line), kind="means")
    assert passes(best(f"{line} --scale 0.5"), kind="means")


def test_a_v_that_is_not_whole_loads_is_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "-b 2 -H 2 -s 9 --seqlen-k 20 -d 32 --hdim-v 36 --layout bshd"
    assert passes(best(line))
    monkeypatch.setattr(scratch, "next_multiple", lambda value, step: value)
    plan = best(line + " --scale 0.25")
    with pytest.raises(BadAddress):
        passes(plan)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"-b 1 -H 1 -s 200 --seqlen-k 60 -d 32 --mask window-tl:9,0 {BWD}", "grad_query"),
        (f"--seqlens-q 20,9 --seqlens-k 30,0 -H 1 -d 32 {BWD}", "grad_query"),
        (f"-b 1 -H 1 -s 70 --seqlen-k 140 -d 32 --mask causal-tl --bias elementwise --dbias {BWD}", "grad_bias"),
        (f"-b 1 -H 1 -s 70 --seqlen-k 140 -d 32 {BWD}", "workspace"),
        (f"-b 1 -H 1 -s 140 -d 32 --window 20 --deterministic {BWD}", "workspace"),
    ],
)
def test_what_no_block_writes_is_zeroed(line: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(best(line))
    launch, tensor = arguments.launch, {copy: name for name, copy in COPIES.items()}.get(name, "")
    monkeypatch.setattr(arguments, "launch", lambda kernel, s: replace(launch(kernel, s), cleared=()))
    space = Staging.space

    def elsewhere(m: Staging, call: Any, arena: Any, asked: str) -> Any:
        found = space(m, call, arena, asked)
        return np.zeros_like(found) if asked == tensor and not copying_out else found

    copying_out: list[bool] = []
    copy_out = Staging.copy_out
    monkeypatch.setattr(Staging, "copy_out", lambda *given: (copying_out.append(True), copy_out(*given)))
    monkeypatch.setattr(Staging, "space", elsewhere)
    assert is_noticed(best(line))


@pytest.mark.parametrize(
    "line",
    [
        "-b 1 -H 1 -s 90 --seqlen-k 30 -d 32 --mask window-tl:9,0 --lse",
        "-b 1 -H 1 -s 90 --seqlen-k 30 -d 136 --mask window-tl:9,0 --lse",
        "--seqlens-q 20,9 --seqlens-k 30,0 -H 1 -d 136 --lse",
    ],
)
def test_rows_without_keys_are_filled(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(best(line))
    blind = copies.blind_rows
    monkeypatch.setattr(copies, "blind_rows", lambda p: [np.zeros_like(rows) for rows in blind(p)])
    assert not passes(best(line))


@pytest.mark.parametrize("kind", ["padding", "rows without keys"])
def test_the_lse_of_a_backward_pass_is_inf_where_there_is_no_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"-b 1 -H 1 -s 90 --seqlen-k 30 -d 32 --mask window-tl:9,0 {BWD}"
    assert passes(best(line))
    if kind == "padding":
        monkeypatch.setattr(conversions, "inf", float("nan"))
    else:
        own = SimpleNamespace(**{**vars(np), "isneginf": lambda values: np.zeros(values.shape, np.bool_)})
        monkeypatch.setattr(copies, "np", own)
    assert not passes(best(line))


def test_fp32_kernels_read_row_sums_that_the_host_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"-b 1 -H 2 -s 20 --seqlen-k 30 -d 32 --dtype fp32 {BWD}"
    assert passes(best(line))
    assert passes(best(line.replace("fp32", "fp16")))
    plan = best(line)
    monkeypatch.setattr(conversions, "row_sums_in", lambda *given: None)
    assert not passes(plan)


@pytest.mark.parametrize(
    "line",
    [
        "-b 1 -H 70 --kv-heads 1 -s 1 --seqlen-k 20 -d 32",
        "-b 1 -H 2 --kv-heads 1 -s 65 --seqlen-k 90 -d 32 --mask causal-tl",
    ],
)
def test_heads_of_a_single_row_are_not_taken_for_rows(line: str) -> None:
    """Without an LSE the kernel does so, runs past the last head of 70, and drops the mask of a last tile of one row."""
    assert passes(best(line))
    assert is_noticed(best(line), setting(logsumexp_ptr=0))


def test_a_packed_sequence_without_rows_has_one_block_of_keys() -> None:
    """More divide by its number of tiles of rows, which is 0."""
    line = f"--seqlens-q 0,20 --seqlens-k 140,30 -H 1 -d 32 {BWD}"
    assert passes(best(line))
    plan = best(line)
    with pytest.raises(ZeroDivisionError):
        run_plan(plan, DEVICE, change=setting(num_splits_key=3), grid=(3, 1, 2))


def test_a_packed_forward_pass_with_dropout_needs_the_number_of_keys() -> None:
    """Upstream passes 0, so all heads draw one mask, unlike its backward pass."""
    line = "--seqlens-q 20,9 --seqlens-k 30,14 -H 2 -d 32 --dropout 0.3 --lse"
    assert passes(best(line))
    assert not passes(best(line), setting(num_keys=0))


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize(("dtype", "dropout"), [("fp16", 0.27), ("fp16", 0.00049), ("fp32", 0.1)])
def test_the_dropout_factor_is_the_rounded_one(
    arch: str, dtype: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of another factor is smaller than the budget. With one key and whole numbers there is no other error."""
    device, errors, compared = DeviceFacts.of_arch(arch), list[float](), modelled_run.compared

    def judged(*given: Any) -> Any:
        found = compared(*given)
        errors.extend(check.row_l2 for name, check in found.checks if name == "o")
        return found

    monkeypatch.setattr(modelled_run, "compared", judged)
    problem = Problem.from_cli(f"-b 1 -H 1 -s 64 --seqlen-k 1 -d 32 --dropout {dropout} --dtype {dtype}")
    plan = plans_of(problem, device)[0]
    assert run_plan(plan, device, kind="sparse_int").passed
    monkeypatch.setattr(reference, "keep_factor", lambda stream, p: 1 / (1 - p.dropout))
    assert run_plan(plan, device, kind="sparse_int").passed
    assert errors[0] == 0 < errors[1]


def test_rows_of_a_bias_that_are_not_whole_loads_are_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "-b 1 -H 1 -s 9 --seqlen-k 20 -d 32 --bias elementwise"
    assert passes(best(line))
    monkeypatch.setattr(staging, "bias_shape", lambda p: None)
    plan = best(line + " --scale 0.25")
    with pytest.raises(BadAddress):
        passes(plan)


def test_a_dbias_that_is_broadcast_is_summed_by_the_host() -> None:
    """A stride of 0, as a broadcast bias has it, makes heads overwrite each other's dBias."""
    line = f"-b 1 -H 2 -s 20 --seqlen-k 32 -d 32 --bias elementwise --dbias {BWD}"
    assert passes(best(line))
    assert is_noticed(best(line), setting(gB_strideH=0))
