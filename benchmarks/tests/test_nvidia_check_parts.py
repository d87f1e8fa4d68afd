"""The parts of the NVIDIA check that need no GPU: budget, random problems, parallel processes, sanitizer output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nvidia_check import flash_cases
from nvidia_check.budget import Budget, out_of_time
from nvidia_check.kernels import pool_of, supply
from nvidia_check.page import page
from nvidia_check.plans import machine_of
from nvidia_check.random_problems import random_problems
from nvidia_check.results import Result, good, table
from nvidia_check.sanitizer import judged as sanitized
from nvidia_check.sanitizer import sanitize
from nvidia_check.shards import Setting, Wanted, environ_of_children, judged, key_of, validate
from nvidia_check.speed import rivals_of, verdict_of
from nvidia_check.subjects import FLASH_3

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.problem import Problem


class Clock:
    """A clock that the test advances."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_hands_out_what_is_left() -> None:
    clock = Clock()
    budget = Budget(100, clock)
    assert budget.share(least=10, most=40) == 40
    clock.now += 70
    assert budget.left == 30
    assert budget.share(least=10, most=40) == 30
    assert budget.share(least=10, most=40, keep=15) == 15
    assert budget.share(least=10, most=40, keep=25) is None
    budget.done("first")
    clock.now += 50
    budget.done("second")
    assert (budget.left, budget.used) == (0, 120)
    assert budget.share(least=1, most=2) is None
    assert budget.spent == {"first": 70, "second": 50}
    assert out_of_time(budget, "third") == "third was not begun: 0 s of 100 s were left"


BASES = [
    Problem.from_cli(line)
    for line in (
        "-b 2 -H 4 -s 512 -d 64 --dtype bf16 --causal --splits 1",
        "-b 1 -H 4 -s 300 -d 40 --dtype fp16 --mask window:9,9 --softcap 3 --splits 1",
        "--seqlens-q 3,4 -H 4 -d 128 --dtype bf16 --dropout 0.1 --lse --splits 1",
        "-b 2 -H 4 -s 9 --kv-cache linear --cache-seqlens 50 --append 9 --rotary 64 -d 128 --dtype bf16 --causal --splits 3",
        "-b 2 -H 4 -s 9 --kv-cache paged:256 --cache-seqlens 50 -d 128 --dtype bf16 --alibi --splits 1",
        "-b 1 -H 4 -s 300 -d 64 --dtype fp16 --direction bwd",
    )
]


def test_random_problems_follow_from_the_seed_and_are_of_their_kinds() -> None:
    wanted = random_problems(BASES, lambda p: True, flash_cases.drawn, 60, seed=3)
    assert wanted == random_problems(BASES, lambda p: True, flash_cases.drawn, 60, seed=3)
    assert wanted != random_problems(BASES, lambda p: True, flash_cases.drawn, 60, seed=4)
    assert len({key_of(w.flags) for w in wanted}) == 60
    problems = [Problem.from_cli(w.flags) for w in wanted]
    for n, base in enumerate(BASES):
        mine = problems[n :: len(BASES)]
        for name in ("dtype", "mode", "direction"):
            assert {getattr(p, name) for p in mine} == {getattr(base, name)}
        assert {p.mask.kind for p in mine} <= {base.mask.kind, *(() if base.mask.kind == "none" else ("causal",))}
        assert {p.kv_cache.kind for p in mine} == {base.kv_cache.kind}
        assert {(p.append > 0, p.rotary.dim > 0, p.splits > 1) for p in mine} == {
            (base.append > 0, base.rotary.dim > 0, base.splits > 1)
        }
        assert len({(p.seqlen_q, p.seqlen_k) for p in mine}) > 3
        assert all((base.hdim <= 64) == (p.hdim <= 64) for p in mine)
    assert any(p.cache_leftpad for p in problems)
    assert {p.hdim for p in problems[1 :: len(BASES)]} <= {40, 48, 56}  # the bucket of 64 without its own head dim


@pytest.mark.slow
@pytest.mark.ci
def test_random_problems_stay_with_what_is_served() -> None:
    wanted = random_problems(
        BASES[:1], lambda p: p.seqlen_q % 128 == 0 and p.heads == p.kv_heads, flash_cases.drawn, 20
    )
    assert all(Problem.from_cli(w.flags).seqlen_q % 128 == 0 for w in wanted)
    with pytest.raises(ValueError, match="0 problems"):
        random_problems(BASES[:1], lambda p: False, flash_cases.drawn, 1)


def test_a_draw_is_possible_or_drawn_again() -> None:
    import random

    rng = random.Random(0)
    assert all(isinstance(flash_cases.drawn(base, rng), list) for base in BASES for _ in range(50))


@pytest.fixture
def setting(tmp_path: Path, shared_cache: Path) -> Setting:
    fills = ("normal", "coded")
    return Setting(backend="cpu", device="cpu", cache_root=str(shared_cache), folder=tmp_path, fills=fills, processes=2)


PROBLEMS = (
    Wanted("a", "-b 1 -H 2 -s 40 -d 32 --dtype fp32 --causal", ("fwd",)),
    Wanted("b", "-b 2 -H 2 -s 3 -d 32 --dtype fp32 --kv-cache linear --cache-seqlens 9 --cache-leftpad 2,5", ("fwd",)),
    Wanted("c", "-b 1 -H 2 -s 40 -d 32 --dtype fp32", ("fwd_splitkv",)),
    Wanted("d", "-b 1 -H 2 -s 40 -d 600 --dtype fp32"),
)


@pytest.mark.slow
@pytest.mark.ci
def test_processes_side_by_side_check_unlike_problems(setting: Setting) -> None:
    found = validate("cases", PROBLEMS, setting, 120)
    assert [r.name for r in found] == ["a", "b", "c", "d"]
    assert [r.verdict for r in found] == ["PASSED", "PASSED", "WRONG", "UNSUPPORTED"]
    assert found[0].families == ["fwd"]
    assert found[0].figures["rows"] == 2  # one more for the sibling that returns LSE
    assert 0 < (found[0].used or 0) < 1
    assert found[2].why == "fwd_splitkv expected, not fwd"
    assert "K012" in (found[3].why or "")


@pytest.mark.slow
@pytest.mark.ci
def test_a_problem_with_a_kernel_of_its_own_is_checked_with_it(setting: Setting) -> None:
    """It is not in the sweep, whose problems have their first kernels, and the rows keep their order."""
    named = replace(PROBLEMS[0], name="named", kernel="no such kernel")
    found = validate("cases", (named, PROBLEMS[0]), setting, 120)
    assert [(r.name, r.verdict) for r in found] == [("named", "NOT_RUN"), ("a", "PASSED")]
    assert "fmha validate ended with 2" in (found[0].why or "")
    assert "no such kernel" in (found[0].why or "")
    digest = found[1].figures["kernels"][0]
    (other,) = validate("cases", (replace(named, kernel=digest),), setting, 120)
    assert (other.verdict, other.figures["kernels"]) == ("PASSED", [digest])
    late = validate("cases", (named,), setting, 0.0)
    assert [(r.verdict, r.why) for r in late] == [("NOT_RUN", "the time of this part was over")]


@pytest.mark.slow
@pytest.mark.ci
def test_what_was_not_done_in_time_is_not_run(setting: Setting) -> None:
    found = validate("cases", PROBLEMS[:2], setting, 0.0)
    why = "the 0.001 s of the sweep were over before this row was done"
    assert {(r.verdict, r.why) for r in found} == {("NOT_RUN", why)}


@pytest.mark.slow
@pytest.mark.ci
def test_a_sweep_that_fails_says_why(setting: Setting) -> None:
    broken = Setting(**{**vars(setting), "device": "cuda:99"})
    found = validate("cases", PROBLEMS[:1], broken, 60)
    assert found[0].verdict == "NOT_RUN"
    assert "fmha sweep ended with 4" in (found[0].why or "")
    assert "cuda:99" in (found[0].why or "")


def test_the_worst_row_of_a_problem_counts() -> None:
    def record(verdict: str, share: float) -> dict[str, object]:
        check = {"row_l2": share, "row_l2_budget": 1.0}
        stages = [{"family": "fwd", "digest": "0" * 64, "prebuilt_by": "NVRTC 1"}]
        rest = {"stages": stages, "reasons": [], "notes": ["it is so"]}
        return {"verdict": verdict, "fills": [{"o": check, "lse": None, "fill": "x"}], "checks": None, **rest}

    result = judged("cases", PROBLEMS[0], [record("PASSED", 0.9), record("WRONG", 0.2)], "")
    assert (result.verdict, result.why, result.used) == ("WRONG", "it is so", 0.9)
    assert result.figures["prebuilt_by"] == ["NVRTC 1"]
    assert judged("cases", PROBLEMS[0], [record("CRASHED", 0), record("UNSUPPORTED", 0)], "").verdict == "CRASHED"
    assert judged("cases", PROBLEMS[0], [], "killed").why == "killed"


@pytest.mark.parametrize(
    ("code", "said", "verdict", "words"),
    [
        (0, "========= ERROR SUMMARY: 0 errors", "PASSED", None),
        (0, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "PASSED", None),
        (
            1,
            "========= Invalid __global__ write\n========= ERROR SUMMARY: 3 errors",
            "WRONG",
            "3 errors; first: ========= Invalid",
        ),
        (0, "========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 1 error", "WRONG", "1 errors"),
        (0, "========= RACECHECK SUMMARY: 2 hazards displayed", "WRONG", "2 errors"),
        (1, "========= Error: Device not supported. Please refer to", "NOT_RUN", "refuses"),
        (-1, "no end within 90 s", "NOT_RUN", "no end"),
        (0, "{}", "NOT_RUN", "no summary"),
        (6, "========= ERROR SUMMARY: 0 errors", "CRASHED", "exit 6"),
    ],
)
def test_what_the_sanitizer_says(code: int, said: str, verdict: str, words: str | None) -> None:
    found, why = sanitized(code, said)
    assert found == verdict
    assert (why is None) if words is None else (words in (why or ""))


@pytest.mark.slow
@pytest.mark.ci
def test_the_sanitizer_is_asked_for_every_case_and_tool(setting: Setting) -> None:
    asked: list[Sequence[str]] = []

    def run(words: Sequence[str], seconds: float) -> tuple[int, str]:
        asked.append(words)
        if PROBLEMS[0].flags in " ".join(words):
            subprocess.run(words[words.index(sys.executable) :], check=True, env=environ_of_children())
        return 0, "========= ERROR SUMMARY: 0 errors"

    rows = sanitize(PROBLEMS[:2], setting, Budget(1000), "/bin/compute-sanitizer", run)
    assert [r.verdict for r in rows] == ["PASSED", "NOT_RUN"] * 2
    assert rows[1].why == "there is no record of it"  # a tool that saw nothing run proves nothing
    assert [words[2] for words in asked] == ["memcheck", "memcheck", "racecheck", "racecheck"]
    assert all("--target-processes" in words for words in asked)
    for words, case in zip(asked, PROBLEMS[:2] * 2, strict=True):
        assert case.flags in " ".join(words)


def test_a_sanitizer_that_refuses_the_device_is_not_asked_again(setting: Setting) -> None:
    asked = []

    def run(words: Sequence[str], seconds: float) -> tuple[int, str]:
        asked.append(words)
        return 1, "Device not supported"

    rows = sanitize(PROBLEMS[:2], setting, Budget(1000), "/bin/compute-sanitizer", run)
    assert len(asked) == 1
    assert {(r.verdict, r.why) for r in rows} == {("NOT_RUN", "compute-sanitizer refuses: Device not supported")}
    rows = sanitize(PROBLEMS[:1], setting, Budget(1000), None, run)
    assert {r.why for r in rows} == {"compute-sanitizer is not installed here"}
    assert "not begun" in (sanitize(PROBLEMS[:1], setting, Budget(0), "x", run)[0].why or "")


def test_a_race_is_fair_if_outputs_and_kernels_agree() -> None:
    mine, other = (f"fmha_cutlassF_bf16_aligned_64x{keys}_rf_sm80" for keys in (64, 128))
    fill, theirs = "void at::native::fill(int)", f"{mine}(AttentionKernel<float>::Params)"
    assert verdict_of(0.001, True, [mine], [fill, theirs]) == ("PASSED", None)
    assert verdict_of(0.001, True, [other], [fill, theirs]) == ("WRONG", f"PyTorch ran {mine}, we ran {other}")
    assert verdict_of(0.001, False, [other], [fill, theirs]) == ("PASSED", None)
    verdict, why = verdict_of(0.001, True, [mine], [fill])
    assert (verdict, "were not compared" in (why or "")) == ("PASSED", True)
    for off in (0.5, float("inf")):
        verdict, why = verdict_of(off, False, [mine], [theirs])
        assert (verdict, "outputs differ" in (why or "")) == ("WRONG", True)


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_kernels_that_take_a_minute_are_not_compiled_during_a_check(arch: str, tmp_path: Path) -> None:
    """The time of the GPU is limited, and none of it may go into compiling what ``gpu_prepare.py`` compiles anywhere."""
    backend = build_registry().backend(FLASH_3.backend)
    pool = pool_of(backend, machine_of(arch), [FLASH_3.cases[0].flags])
    made = supply(pool, backend, tmp_path / "cache", jobs=1, seconds=30, slow=False)
    (why,) = made.faults.values()
    if "NVRTC" in why:
        pytest.skip(why)
    assert "was not built: it takes 31 to 57 s; gpu_prepare.py builds it" in why


class FakeTorch:
    """PyTorch with some of its operators."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def operator(self, name: str, *_: object) -> str:
        if name not in self.names:
            raise ImportError(f"no {name}")
        return f"call of {name}"


def test_a_point_is_raced_against_the_first_rival_that_can_run_it() -> None:
    point = FLASH_3.points[0]
    problem = Problem.from_cli(point.flags)

    def found(*names: str) -> tuple[dict[str, Any], dict[str, str]]:
        return rivals_of(FLASH_3, problem, point, FakeTorch(*names))  # type: ignore[arg-type]

    theirs, absent = found("flash", "cudnn")
    assert list(theirs) == ["flash", "cudnn"]
    assert absent == {"flash_3": "ImportError: no flash_3"}
    assert list(found("flash", "flash_3")[0]) == ["flash_3", "flash"]
    with pytest.raises(RuntimeError, match=r"flash_3: ImportError: no flash_3; flash: .*; cudnn: "):
        found()


def test_the_page_has_a_part_for_every_backend() -> None:
    raced = {
        "ours_ns": 2e3,
        "ours_ci95": None,
        "torch_ns": 3e3,
        "against": "efficient",
        "tflops": 1.0,
        "gbps": 2.0,
        "ratio": 1.5,
    }
    raced |= {"ratio_ci95": (1.4, 1.6), "goal_met": True, "beside": {"cudnn": 4e3, "flash": "it cannot"}}
    raced |= {"kernels": {"ours": ["fmha_cutlassF"], "torch": ["void fill(int)", "fmha_cutlassF(Params)"]}}
    rows = [
        Result("ceilings", "copy", verdict="UNCHECKED", figures={"line": "9 GB/s"}),
        Result("cases", "one", verdict="PASSED", backend="mem_efficient"),
        Result("speed", "two", verdict="PASSED", backend="mem_efficient", figures=raced),
        Result("cases", "three", why="no kernel", backend="cudnn_oss"),
    ]
    machine = {"python": "3.11", "cores": 2, "versions": {"torch": "2.13.0"}, "nvidia_smi": "no GPU"}
    notes = {"environment": machine, "kernels": {"mem_efficient": {"text": "3 kernels"}}}
    text = page({"device": None, "notes": notes, "seconds": 1.0}, rows)
    assert "- mem_efficient: 3 kernels" in text
    assert "## The machine's own ceilings" in text
    assert "## Memory-efficient attention: every family and feature, all fills" in text
    assert "| fmha_cutlassF | fill, fmha_cutlassF | two |" in text
    assert "| two | 2.0 |  | 3.0 efficient | 1 | 2 | 1.500 | 1.400-1.600 | cudnn 4.0, flash cannot |" in text
    assert "## cuDNN's published kernels: every family and feature, all fills" in text
    assert "three: NOT_RUN: no kernel" in text


def test_the_table_says_what_went_wrong() -> None:
    rows = [
        Result("cases", "one", verdict="PASSED", used=0.4),
        Result("cases", "two", verdict="WRONG", why="off by a lot"),
        Result("speed", "three", verdict="PASSED", figures={"line": "1.0 us"}),
        Result("random", "four", why="no time"),
    ]
    text = "\n".join(table(rows))
    assert "1 PASSED, 1 WRONG; at most 40% of an error budget" in text
    assert "two: WRONG: off by a lot" in text
    assert "1.0 us" in text
    assert not good(rows)
    assert good([rows[0], rows[2], rows[3]])


def test_a_half_written_record_is_none(tmp_path: Path) -> None:
    from nvidia_check.shards import _records

    problem = Problem.from_cli(PROBLEMS[0].flags).to_dict()
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"problem": problem, "verdict": "PASSED"}) + '\n{"problem": {')
    assert {key: len(rows) for key, rows in _records(path).items()} == {key_of(PROBLEMS[0].flags): 1}
