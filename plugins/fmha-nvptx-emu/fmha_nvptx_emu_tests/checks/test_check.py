"""The check ``nvptx_emulator``: which kernels count, and what its problems are. Nothing is built."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")

from fmha_cli.api import Problem, build_registry, explain
from tests.checks import nvptx_emulator as check
from tests.checks.command import overview
from tests.checks.nvptx_problems import PtxKind, all_kinds

EVEN, RAGGED = "-s 256", "-s 200 --seqlen-k 333"
CHEAP = {
    *(("cudnn_oss", f"fwd, causal, d{hdim} bf16") for hdim in (64, 128)),
    *(("mem_efficient", f"fwd, d{hdim} {dtype}") for hdim in (64, 128) for dtype in ("fp16", "bf16")),
}
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


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
@pytest.mark.parametrize("left_out", range(2 * len(check.SEEDS)))
def test_a_kernel_without_one_of_its_rows_does_not_count(left_out: int) -> None:
    rows = enough()
    rows[left_out]["verdict"] = "WRONG"
    assert check.counted(rows) == {}


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_kernel_without_a_ragged_problem_is_counted_apart() -> None:
    rows = [row(flags, seed) for flags in (EVEN, RAGGED) for seed in check.SEEDS]
    assert check.counted(rows) == {}
    assert check.counted(rows, full_tiles=True) == {("flash_attn", "fwd"): {"k"}}
    assert "| flash_attn | fwd | 0 | 1 | 0 |" in check.summary(rows)


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_kernel_with_a_finding_is_counted_apart() -> None:
    """One finding in one row suffices; a row that is wrong leaves a kernel out altogether."""
    found = [*enough(), row("-s 384", 0, verdict="HAZARD")]
    assert check.counted(found) == check.counted(found, full_tiles=True) == {}
    assert check.counted(found, findings=True) == {("flash_attn", "fwd"): {"k"}}
    assert "| flash_attn | fwd | 0 | 0 | 1 |" in check.summary(found)
    assert check.counted([*found, row("-s 512", 0, verdict="WRONG")], findings=True) == {}


def test_the_architecture_is_not_in_the_digest() -> None:
    digests = [check.plain_digests("mem_efficient", device) for device in ("emu:sm_80", "emu:sm_90")]
    assert set(digests[0]) != set(digests[1])
    assert set(digests[0].values()) & set(digests[1].values())


def test_every_problem_has_two_blocks_of_queries_and_keys() -> None:
    for kind in all_kinds():
        for flags in kind.problems:
            problem = Problem.from_cli(flags)
            rows, keys = max(problem.query_lengths()), max(problem.key_lengths())
            assert min(rows, keys) >= BLOCK, (kind.name, flags)
    assert {kind.device for kind in all_kinds()} == {"emu:sm_75", "emu:sm_80", "emu:sm_86", "emu:sm_90a"}


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_every_kernel_of_sm_80_and_most_of_sm_75_are_reached() -> None:
    """By the choice of ``fmha explain``; a kernel counts after two problems, so each has two, even or ragged ones alone."""
    registry = build_registry()
    problems: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for kind in all_kinds():
        if kind.backend in ("mem_efficient", "cudnn_oss"):
            for flags in kind.problems:
                asked = {"backend": kind.backend, "device": kind.device, "kernel": kind.kernel or None}
                chosen = explain(Problem.from_cli(flags), registry=registry, **asked).chosen
                assert chosen is not None, (kind.name, flags)
                problems[replace(chosen.kernel, arch="").digest].add((kind.device, flags))
    assert all(len(some) >= check.PROBLEMS for some in problems.values())
    for backend, arch, least in (
        ("mem_efficient", "sm_80", 55),
        ("mem_efficient", "sm_75", 25),
        ("cudnn_oss", "sm_90a", 2),
    ):
        kernels = {replace(k, arch="").digest for k in registry.backend(backend).kernels(registry.arch(arch))}
        assert len(kernels & problems.keys()) >= least, arch


def test_ragged_problems_fill_no_tile() -> None:
    for kind in all_kinds():
        for flags in kind.ragged:
            problem = Problem.from_cli(flags)
            assert any(n % 64 for n in problem.key_lengths()), (kind.name, flags)


def test_of_many_findings_the_first_of_each_kind_is_shown() -> None:
    one = {"kernel": "k", "kind": "missing-wait", "address": 7}
    found = check.shown([one, {**one, "address": 8}, {**one, "kind": "shared-race"}])
    assert found == [{**one, "places": 2}, {**one, "kind": "shared-race", "places": 1}]


SAMPLE = [
    random.Random(17).choice([k for k in all_kinds() if (k.backend, k.name) in CHEAP and k.backend == backend])
    for backend in ("cudnn_oss", "mem_efficient")
]
"""Of the kernels that NVRTC compiles in seconds; those of FlashAttention-2 need minutes each."""


@pytest.mark.parametrize("kind", SAMPLE, ids=lambda kind: f"{kind.backend} {kind.name}")
def test_a_sample_of_the_count(kind: PtxKind) -> None:
    """One problem of a kernel, built, executed and judged; ``results/nvptx_emulator.md`` has the rest."""
    pytest.importorskip("cuda.bindings")
    found = check.row_of(check.PtxPoint(kind, kind.problems[0], 0))
    assert (found["verdict"], found["findings"]) == ("PASSED", []), found["notes"]
    assert found["kernels"]


def test_findings_stand_while_the_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "revision", lambda: "abc")
    known = {**row(EVEN, 0, verdict="HAZARD"), "revision": "abc"}
    assert check.stands(known)
    assert not check.stands({**known, "revision": "abd"})
    assert not check.stands({**known, "verdict": "WRONG"})


def test_a_row_that_did_not_pass_is_named() -> None:
    assert not check.CHECK.good(wrong := row(EVEN, 0, verdict="WRONG"))
    assert '"verdict": "WRONG"' in overview(check.CHECK, [wrong])
