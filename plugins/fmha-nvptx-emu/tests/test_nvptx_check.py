"""``benchmarks/nvptx_emulator_check.py``: which kernels count, and what its problems are. Nothing is built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

import nvptx_emulator_check as check
from nvptx_cases import Kind, all_cases

from fmha_cli.api import Problem, build_registry

EVEN, RAGGED = "-s 256", "-s 200 --seqlen-k 333"
BLOCK = 129
"""The fewest rows that are two blocks of every kernel."""


def row(flags: str, seed: int, *, ragged: bool = False, kernel: str = "k", verdict: str = "PASSED") -> dict[str, Any]:
    return {
        "backend": "flash_attn", "device": "emu:sm_80", "arch": "emu:sm_80", "case": "c", "flags": flags, "seed": seed, "ragged": ragged,
        "verdict": verdict, "kernels": {kernel: "fwd"}, "checks": {}, "findings": [], "notes": [], "repro": "fmha validate",
    }  # fmt: skip


def enough() -> list[dict[str, Any]]:
    """The rows of two problems of one kernel."""
    return [row(flags, seed, ragged=flags == RAGGED) for flags in (EVEN, RAGGED) for seed in check.SEEDS]


def test_a_kernel_counts_once() -> None:
    assert check.counted([*enough(), *enough()]) == {("flash_attn", "fwd"): {"k"}}
    assert check.counted(enough(), full_tiles=True) == {}


@pytest.mark.parametrize("left_out", range(2 * len(check.SEEDS)))
def test_a_kernel_without_one_of_its_rows_does_not_count(left_out: int) -> None:
    rows = enough()
    rows[left_out]["verdict"] = "WRONG"
    assert check.counted(rows) == {}


def test_a_kernel_without_a_ragged_problem_is_counted_apart() -> None:
    rows = [row(flags, seed) for flags in (EVEN, RAGGED) for seed in check.SEEDS]
    assert check.counted(rows) == {}
    assert check.counted(rows, full_tiles=True) == {("flash_attn", "fwd"): {"k"}}
    assert "| flash_attn | fwd | 0 | 1 |" in check.table(rows)


def test_the_architecture_is_not_in_the_digest() -> None:
    registry = build_registry()
    digests = [check.plain_digests("mem_efficient", device, registry) for device in ("emu:sm_80", "emu:sm_90")]
    assert set(digests[0]) != set(digests[1])
    assert set(digests[0].values()) & set(digests[1].values())


def test_every_problem_has_two_blocks_of_queries_and_keys() -> None:
    for kind in all_cases():
        for flags in kind.problems:
            problem = Problem.from_cli(flags)
            rows, keys = max(problem.query_lengths()), max(problem.key_lengths())
            assert min(rows, keys) >= BLOCK, (kind.name, flags)
    assert {kind.device for kind in all_cases()} == {"emu:sm_75", "emu:sm_80", "emu:sm_86"}


def test_ragged_problems_fill_no_tile() -> None:
    for kind in all_cases():
        for flags in kind.ragged:
            problem = Problem.from_cli(flags)
            assert any(n % 64 for n in problem.key_lengths()), (kind.name, flags)


def test_rows_that_passed_stand_and_others_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind("c", "flash_attn", "emu:sm_80", (EVEN,), (RAGGED,))
    file, ran = tmp_path / "rows.json", []
    old = enough()
    old[1]["verdict"] = "WRONG"
    file.write_text(json.dumps({"rows": old}), "utf-8")

    def again(point: check.Point, *rest: Any) -> dict[str, Any]:
        ran.append(check.asked(point))
        return row(point[1], point[2])

    monkeypatch.setattr(check, "all_cases", lambda: (kind,))
    monkeypatch.setattr(check, "plain_digests", lambda *a: {})
    monkeypatch.setattr(check, "row_of", again)
    assert check.main(["--json", str(file), "--resume"]) == 0
    assert ran == [check.key_of(old[1])]
    assert [one["seed"] for one in json.loads(file.read_text("utf-8"))["rows"]] == [*check.SEEDS] * 2


def test_a_row_that_did_not_pass_fails_the_script_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "all_cases", lambda: (Kind("c", "flash_attn", "emu:sm_80", (EVEN,), ()),))
    monkeypatch.setattr(check, "plain_digests", lambda *a: {})
    monkeypatch.setattr(check, "row_of", lambda point, *a: row(point[1], point[2], verdict="WRONG"))
    assert check.main([]) == 1
    assert "WRONG: `fmha validate --emu-seed 2`" in capsys.readouterr().out
