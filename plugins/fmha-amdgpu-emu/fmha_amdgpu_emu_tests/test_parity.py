"""Upstream's own example programs on an emulated device, compared with this tool.

CI runs a seeded sample, the slow suite hundreds of cases.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fmha_amdgpu_emu_tests.support.harness import tool
from tests.checks.command import overview
from tests.checks.emulator_parity import CHECK, rows_of, small

SEED = 5
DEVICE = "emu:gfx942"
CASES = 3


def ragged(seed: int) -> dict[str, dict[str, str]]:
    """Forward cases of one kernel with lengths that do not fill a tile."""
    draw = random.Random(seed)
    cases = {}
    for number in range(CASES):
        lengths = {"s": str(draw.randrange(1, 90) * 2 + 1), "s_k": str(draw.randrange(1, 120) * 2 + 1)}
        cases[f"ragged{number}"] = {"b": str(draw.choice((1, 2))), "h": "2", "h_k": "1", "seed": str(seed), **lengths}
    return cases


def parity(folder: Path, program: str, settings: dict[str, str], cases: dict[str, dict[str, str]]) -> list[Any]:
    """The rows of ``fmha parity`` for these cases; the programs are built for their kernels only."""
    tool("clang++-22", "clang++-21", "clang++-20", "clang++-19", "hipcc")
    suite, out = folder / "suite.json", folder / "parity.json"
    matrix = {"program": program, "group": "g", "settings": settings, "cases": cases}
    suite.write_text(json.dumps({"title": "t", "sources": [], "matrices": [matrix]}), "utf-8")
    words = ["--build-upstream", "--suite", str(suite), "--device", DEVICE, "--emu-seed", str(SEED), "--jobs", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "fmha_cli", "parity", *words, "--json", "-o", str(out)],
        env={**os.environ, "CCC_OVERRIDE_OPTIONS": "# +-Xarch_host +-O0"},  # half of the program is its own reference
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text("utf-8"))["cases"]
    assert len(rows) == len(cases)
    return list(rows)


def agrees(row: dict[str, Any], kernels: int) -> None:
    """Assert that both sides passed and did the same work, without findings or times."""
    ours, theirs = row["ours"], row["upstream"]
    assert row["outcome"] == "agree-pass", row["why"]
    assert (ours["device"], theirs["device"]) == (DEVICE, DEVICE)
    assert (ours["findings"], theirs["findings"]) == ([], [])
    assert (ours["measurement"], theirs["ms"], row["times"]) == (None, None, None)
    assert " ms" not in theirs["line"]
    assert len(theirs["executed"]) == kernels
    assert work(theirs) == work(ours)


def work(side: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Kernel -> instructions and matrix operations of a launch."""
    executed = side["executed"]
    return {e["kernel"]: (e["instructions"] // e["launches"], e["matrix_flops"] // e["launches"]) for e in executed}


def one_case(name: str, flags: str, theirs: dict[str, Any] | None, outcome: str) -> dict[str, Any]:
    """A case in a document of ``fmha parity``; this tool runs one kernel, 40 instructions in each of two launches."""
    ours = {"device": DEVICE, "verdict": "PASSED", "findings": [], "executed": [executed("k", 80, 2)]}
    upstream = theirs and {"device": DEVICE, "said": "valid", "findings": [], "seconds": 0.26, **theirs}
    known = {"group": "g", "name": name, "program": "fwd", "problem": flags, "outcome": outcome, "why": [outcome]}
    return {**known, "ours": ours, "upstream": upstream}


def executed(kernel: str, instructions: int, launches: int) -> dict[str, Any]:
    return {"kernel": kernel, "instructions": instructions, "launches": launches, "matrix_flops": 0}


def test_the_page_counts_what_both_sides_executed() -> None:
    cases = [
        one_case("same", "-s 4", {"executed": [executed("k", 40, 1)]}, "agree-pass"),
        one_case("more", "-s 4 --dropout 0.2", {"executed": [executed("k", 41, 1)]}, "agree-pass"),
        one_case(
            "another", "-s 4", {"executed": [executed("j", 40, 1)], "findings": [{"kind": "lds-race"}]}, "we-fail"
        ),
        one_case("none", "-s 4", None, "not-comparable"),
    ]
    text = overview(CHECK, small({"cases": cases}))
    assert "| fwd g | 2 | 1 | 1 |" in text
    assert "Run on both sides: 3, on emu:gfx942." in text
    assert "(symbols of the functions) on both sides: 2; and with the same number of instructions" in text
    assert "matrix operations: 1; of the others 1 have dropout" in text
    assert "With findings: 1." in text
    assert "- we-fail, 1: we-fail: fwd another" in text


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(1800)
def test_the_forward_program_agrees(tmp_path: Path) -> None:
    for row in parity(tmp_path, "fwd", {"prec": "fp16", "d": "64", "kname": "1"}, ragged(SEED)):
        agrees(row, 1)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_backward_program_agrees(tmp_path: Path) -> None:
    """The three stages agree, with a mask and lengths that do not fill a tile."""
    settings = {"prec": "bf16", "b": "1", "h": "2", "d": "32", "mask": "1", "kname": "1"}
    (row,) = parity(tmp_path, "bwd", settings, {"case": {"s": "77", "s_k": "90"}})
    agrees(row, 3)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_every_case_agrees() -> None:
    """``basic``, and the smallest comparable case of every kind of ``smoke``."""
    cases = rows_of("gfx942")
    assert all(map(CHECK.good, cases))
    passed = [case for case in cases if case["outcome"] == "agree-pass"]
    assert sum(case["group"] == "basic" for case in passed) == 14
    assert sum(case["group"] != "basic" for case in passed) >= 300
    assert all(case["devices"] == [DEVICE] for case in passed)
