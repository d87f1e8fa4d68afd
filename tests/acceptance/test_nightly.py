"""The nightly job: what it plants, and its steps from the comparison on, with commands that play a modelled machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.results.turns import problem_digest
from tests.checks import nightly
from tests.support.children import nightly_turn
from tests.support.generators.runs_to_compare import processes, timed
from tests.support.paths import ROOT
from tests.support.planted.slow_kernel import CHECKOUT, Plant, checkout, cost_of, nearest
from tests.support.referees.nightly import Builds, judge, key_of

ARCH = "x86_64_v4_bf16"
TILE = {"lanes_q": 1, "rows_s": 16, "rows_o": [16, 8, 4, 1], "block_k": 384}
PLAYED = ROOT / "tests" / "support" / "fakes" / "played_bench.py"
LOOK, CONFIRM = 5, 6

_TEXTS = """
import hashlib, json
from fmha_cli.backends.cpu.kernels import cpu_kernels
from fmha_cli.codegen.cpu.emit import emit
from fmha_cli.domain.arch import load_arch
found = {}
for kernel in cpu_kernels(load_arch("x86_64_v4_bf16")):
    text = emit(kernel)
    found.setdefault(f"{kernel.signature.dtype.value} {kernel.algorithm.kind.value}", []).append(
        hashlib.sha256(text.encode()).hexdigest()
    )
print(json.dumps(found))
"""


def texts(tree: Path, folder: Path) -> dict[str, list[str]]:
    """Digests of the emitted kernels of a checkout, by type and kind."""
    command = ["env", f"PYTHONPATH={tree}", sys.executable, "-c", _TEXTS]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("plant", [Plant("fp32", ARCH, TILE, (1.1,)), Plant("fp32", ARCH)], ids=["tile", "delay"])
def test_only_the_planted_kernel_has_another_text(tmp_path: Path, plant: Plant) -> None:
    before, after = texts(CHECKOUT, tmp_path), texts(checkout(tmp_path / "copy", plant), tmp_path)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == ["fp32 prefill"]


def test_a_table_without_the_kernel_and_an_emitter_of_another_text_are_refused(
    tmp_path: Path, monkeypatch: Any
) -> None:
    with pytest.raises(LookupError, match="0 prefill kernels of fp32"):
        checkout(tmp_path / "a", Plant("fp32", "x86_64_amx", TILE))
    monkeypatch.setattr("tests.support.planted.slow_kernel.ENTRY", "no such line")
    with pytest.raises(LookupError, match=r"emit\.py: the text to be replaced is there 0 times"):
        checkout(tmp_path / "b", Plant("fp32", ARCH))


def test_the_constant_nearest_to_a_tenth_is_chosen_and_none_that_is_far() -> None:
    tiles = [{"lanes_q": n} for n in range(6)]
    costs = [(1.09, 1.04, 1.1), (1.13, 1.12, 1.2), (1.06, 1.07, 1.06), (1.3, 1.3, 1.3), (), (0.9, 0.9, 0.8)]
    listed = list(zip(tiles, costs, strict=True))
    assert nearest(listed) == (tiles[1], costs[1])
    assert nearest([listed[0], *listed[3:]]) is None
    assert nearest([]) is None


def test_a_cost_needs_times_of_both_kernels() -> None:
    def record(seqlen: int, digest: str, *samples: int) -> dict[str, Any]:
        measurement = {"samples_ns": samples} if samples else None
        return {"problem": {"seqlen_q": seqlen}, "kernel": {"digest": digest}, "measurement": measurement}

    both = [record(1, "a", 100, 100, 900), record(1, "b", 110, 110, 110)]
    assert cost_of([*both, record(2, "a", 100), record(3, "a", 1), record(3, "b")], "a", "b") == (1.1,)


@pytest.mark.parametrize("rows", [12, 24, 60, 300])
def test_the_flags_have_the_rows_that_were_asked_for(rows: int) -> None:
    flags = dict(zip(nightly.flags_of(rows)[::2], nightly.flags_of(rows)[1::2], strict=True))
    lists = [flags[name].split(",") for name in ("-H", "-s", "--seqlen-k", "-d", "--dtype")]
    count = 1
    for values in lists:
        assert len(set(values)) == len(values)
        count *= len(values)
    assert count == rows
    assert all(int(length) % nightly.STEP == 0 for length in (*lists[1], *lists[2]))


@pytest.mark.parametrize("rows", [0, 13, -12])
def test_other_numbers_of_rows_are_refused(rows: int, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(nightly, "programs", lambda: ("", ""))
    with pytest.raises(ValueError, match="a multiple of 12"):
        nightly.row_of(nightly.NightlyJob(rows, 8, 20, "delay"), tmp_path)


def test_the_summary_says_what_a_job_came_to() -> None:
    row = {
        "planted": 6, "untouched": 6, "found": 5, "missed": ["heads=2: same"], "alarms": [], "verdicts": {"slower": 5}, "faults": [],
        "plant_words": "a delay", "slow_down": {"least": 1.1}, "pages": [], "seconds": {"sweep": 4}, "passed": False,
    }  # fmt: skip
    text = nightly.summary([row])
    assert "6, found SLOWER 5; ratio least 1.100" in text
    assert text.endswith("FAILED\n  heads=2: same")
    assert not nightly.CHECK.good(row)


def written(folder: Path, count: int) -> list[dict[str, Any]]:
    """The processes of both sides, in which every second problem (fp32) is slower by 10 % after the change; the problems."""
    problems = [
        Problem.of(heads=heads, seqlen=64 * (1 + n), hdim=64, dtype=dtype)
        for n in range(count // 6)
        for heads in (2, 3, 4)
        for dtype in ("fp32", "bf16")
    ]
    lines: dict[str, list[list[str]]] = {side: [[] for _ in range(LOOK + CONFIRM)] for side in ("before", "after")}
    keys = []
    for place, problem in enumerate(problems):
        for side, starts in lines.items():
            middle = 100_000 * (11 if side == "after" and place % 2 == 0 else 10) // 10
            seed = 2 * place + (side == "after")
            for start, one in enumerate(processes(middle, seed, LOOK + CONFIRM)):
                record = timed([one]).to_dict() | {"problem": problem.to_dict(), "repro": "fmha bench"}
                record["measurement"]["flops"], record["measurement"]["bytes"] = problem.flops(), problem.bytes()
                starts[start].append(json.dumps(record) + "\n")
        keys.append(problem_digest(Record.from_dict(record, "row")))
    for side, starts in lines.items():
        for start, texts in enumerate(starts):
            (folder / f"{side}-{start}.jsonl").write_text("".join(texts), "utf-8")
    (folder / "keys.txt").write_text("\n".join(keys), "utf-8")
    return [problem.to_dict() for problem in problems]


@pytest.mark.promise("A nightly job names the rows of the changed kernel, and no other.")
@pytest.mark.slow
@pytest.mark.ci
def test_the_job_names_the_planted_rows_and_no_other(tmp_path: Path) -> None:
    """Everything from the comparison on, with 12 rows of a modelled machine: no real time decides."""
    try:
        nightly.programs()
    except RuntimeError as fault:
        pytest.skip(str(fault))
    problems = written(tmp_path, 12)
    night = nightly.Night(tmp_path)
    before, after = (f"{sys.executable} {PLAYED} {tmp_path} {side}" for side in ("before", "after"))
    document, page = nightly.compared(night, (before, after), LOOK, CONFIRM)
    report = nightly.reported(night, tmp_path / "before.jsonl", tmp_path / "after.jsonl")
    pages = nightly.shown((page, report), tmp_path)
    planted = {key_of(problem) for problem in problems if problem["dtype"] == "fp32"}
    old: Builds = {key_of(problem): ("kernel",) for problem in problems}
    new: Builds = {key: ("slower kernel",) if key in planted else one for key, one in old.items()}
    seen = judge(document, 12, planted, old, new, pages)
    assert (seen.planted, seen.found, seen.missed, seen.alarms, seen.faults) == (6, 6, (), (), ())
    assert all(row["screened"] is not None for row in document["rows"] if key_of(row["problem"]) in planted)
    assert [word.partition(" ")[0] for word in pages[1].verdicts].count("SLOWER") == 6
    untold = sorted(planted)[0]
    assert len(judge(document, 12, planted - {untold}, old, {**new, untold: old[untold]}, pages).alarms) == 1


def test_a_night_goes_on_with_the_turns_that_were_kept(tmp_path: Path) -> None:
    """A turn is run once, whatever session asks for it; another number, side or choice of problems is another turn."""
    turns, count = tmp_path / "turns", tmp_path / "count"
    count.write_text("")
    command = (sys.executable, "-c", f"open({str(count)!r}, 'a').write('x'); print('a row')")

    def asked(session: str, side: str, only: str = "", words: tuple[str, ...] = command) -> tuple[int, bytes]:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("FMHA_ONLY", only)
            return nightly_turn.taken(turns, tmp_path / session, side, words)

    failing = (sys.executable, "-c", "raise SystemExit(4)")
    assert asked("first", "before", words=failing)[0] == 4
    assert not turns.exists(), "a turn that failed is not kept"
    for session in ("second", "third"):
        for side, only in (("before", ""), ("after", ""), ("before", ""), ("before", "ab"), ("before", "cd")):
            assert asked(session, side, only) == (0, b"a row\n")
    assert count.read_text() == "x" * 5
    assert len(list(turns.iterdir())) == 5


def test_a_step_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    night = nightly.Night(tmp_path)
    assert night.kept("step", lambda: {"found": 1}) == {"found": 1}
    assert night.kept("step", lambda: 1 / 0) == {"found": 1}


def test_the_folder_of_another_night_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly.same_night(tmp_path, [12, 8])
    nightly.same_night(tmp_path, [12, 8])
    with pytest.raises(ValueError, match="another night"):
        nightly.same_night(tmp_path, [24, 8])
    monkeypatch.setattr(nightly, "PACKAGES", ("arch_specs",))
    with pytest.raises(ValueError, match="another night"):
        nightly.same_night(tmp_path, [12, 8])
