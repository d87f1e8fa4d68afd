"""The judge of the nightly job: what it passes, and each fault that it must see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fmha_cli.domain.problem import Problem
from tests.support.referees.nightly import Builds, Judgement, Shown, builds_of, judge, key_of, slow_downs, table

Document = dict[str, Any]


def row(dtype: str, seqlen: int, speed: str, ratio: float | None, *, worse: bool = False) -> dict[str, Any]:
    problem = Problem.of(dtype=dtype, seqlen=seqlen).to_dict()
    return {"problem": problem, "worse": worse, "difference": {"speed": speed, "ratio": ratio}}


def document(*more: dict[str, Any]) -> Document:
    rows = [row("fp32", 64, "slower", 1.1), row("fp32", 128, "slower", 1.12), row("bf16", 64, "same", 1.0)]
    rows = [*rows, row("bf16", 128, "unsure", 1.01), *more]
    return {"rows": rows, "interleaved": True, "only_before": [], "only_after": []}


def planted(found: Document) -> set[str]:
    return {key_of(one["problem"]) for one in found["rows"] if one["problem"]["dtype"] == "fp32"}


def builds(found: Document, planted_one: str) -> dict[str, tuple[str, ...]]:
    keys = planted(found)
    return {key: (planted_one if key in keys else "same",) for key in (key_of(one["problem"]) for one in found["rows"])}


def page(found: Document, **members: Any) -> Shown:
    words = tuple("WORSE (..)" if one["worse"] else one["difference"]["speed"].upper() for one in found["rows"])
    return replace(Shown("compare.html", True, 9, (), (), words), **members)


def judged(found: Document, rows: int | None = None, **changed: Any) -> Judgement:
    count = len(found["rows"]) if rows is None else rows
    usual: dict[str, Any] = {
        "planted": planted(found),
        "before": builds(found, "old"),
        "after": builds(found, "new"),
        "pages": (page(found),),
    }
    return judge(found, count, **{**usual, **changed})


def test_every_planted_row_found_and_no_other_passes() -> None:
    seen = judged(document())
    assert seen.passed
    assert (seen.planted, seen.untouched, seen.found) == (2, 2, 2)
    assert seen.verdicts == {"slower": 2, "same": 1, "unsure": 1}


@pytest.mark.promise("A nightly job names the rows of the changed kernel, and no other.")
@pytest.mark.parametrize("speed", ["same", "unsure", "faster"])
def test_a_planted_row_that_is_not_slower_is_missed(speed: str) -> None:
    seen = judged(document(row("fp32", 256, speed, 1.05)))
    assert not seen.passed
    assert (seen.planted, seen.found, len(seen.missed), seen.alarms, seen.faults) == (3, 2, 1, (), ())
    assert seen.missed[0].endswith(f"seqlen_q=256 seqlen_k=256 hdim=128: {speed}, ratio 1.050")


@pytest.mark.promise("A nightly job names the rows of the changed kernel, and no other.")
@pytest.mark.parametrize("speed", ["slower", "faster"])
def test_an_untouched_row_with_a_sure_difference_is_an_alarm(speed: str) -> None:
    seen = judged(document(row("bf16", 256, speed, 1.03)))
    assert not seen.passed
    assert (seen.found, seen.missed, len(seen.alarms), seen.faults) == (2, (), 1, ())


def test_a_planted_row_that_was_not_compared_is_missed() -> None:
    found = document()
    lost = {**found, "rows": found["rows"][1:]}
    seen = judged(lost, rows=4, planted=planted(found))
    assert (seen.planted, seen.found, len(seen.missed)) == (2, 1, 1)
    assert seen.missed[0].endswith("not compared")
    assert "3 of 4 rows were compared" in seen.faults


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"only_before": [{}]}, "1 rows are only before"),
        ({"only_after": [{}]}, "1 rows are only after"),
        ({"interleaved": False}, "the commands did not take turns"),
    ],
)
def test_a_comparison_that_is_not_whole_is_a_fault(changed: dict[str, Any], fault: str) -> None:
    assert judged({**document(), **changed}).faults == (fault,)


def test_rows_that_came_twice_are_a_fault() -> None:
    found = document(row("bf16", 128, "same", 1.0))
    assert judged(found).faults == ("4 of 5 rows were compared",)


def test_a_worse_row_is_a_fault() -> None:
    seen = judged(document(row("bf16", 256, "unsure", None, worse=True)))
    assert [fault.rpartition(": ")[2] for fault in seen.faults] == ["worse"]


@pytest.mark.parametrize("keys", [set(), None])
def test_both_kinds_of_rows_are_needed(keys: set[str] | None) -> None:
    found = document()
    every = {key_of(one["problem"]) for one in found["rows"]}
    seen = judged(found, planted=every if keys is None else keys)
    assert any("there must be both kinds" in fault for fault in seen.faults)


def test_the_kernels_must_be_what_is_said_of_them() -> None:
    found = document()
    still, moved, lost = builds(found, "old"), builds(found, "new"), builds(found, "new")
    untouched = next(key for key in moved if key not in planted(found))
    moved[untouched] = ("another",)
    del lost[untouched]
    cases: list[tuple[Builds, int, str]] = [
        (still, 2, "did not change"),
        (moved, 1, "untouched, but its kernel changed"),
        (lost, 1, "did not pass its check after the change"),
    ]
    for after, count, words in cases:
        faults = judged(found, after=after).faults
        assert len(faults) == count
        assert all(words in fault for fault in faults)
    assert "before the change" in judged(found, before={}).faults[0]


def test_only_good_rows_count_as_built() -> None:
    problem = Problem.of(seqlen=64).to_dict()
    stages = [{"artifact_sha256": "a"}, {"artifact_sha256": "b"}]
    good, bad = ({"problem": problem, "stages": stages, "verdict": verdict} for verdict in ("PASSED", "WRONG"))
    assert builds_of([good]) == {key_of(problem): ("a", "b")}
    assert builds_of([bad]) == {}


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ({"drawn": False}, "compare.html: the plots are not drawn"),
        ({"marks": 0}, "compare.html: the plots are not drawn"),
        ({"errors": ("TypeError",)}, "compare.html: TypeError"),
        ({"requests": ("http://x.invalid/",)}, "compare.html asked for http://x.invalid/"),
        ({"verdicts": ("SLOWER",)}, "compare.html: its table has other verdicts than the comparison"),
        (
            {"verdicts": ("SLOWER", "SLOWER", "SLOWER", "UNSURE")},
            "compare.html: its table has other verdicts than the comparison",
        ),
    ],
)
def test_a_page_that_fails_is_a_fault(members: dict[str, Any], fault: str) -> None:
    found = document()
    assert judged(found, pages=(page(found, **members),)).faults == (fault,)
    second = {name: value for name, value in members.items() if name != "verdicts"}
    told = judged(found, pages=(page(found), page(found, **second))).faults
    assert told == ((fault,) if second else ())


def test_no_page_is_a_fault() -> None:
    assert judged(document(), pages=()).faults == ("no page was opened",)


def test_the_table_says_what_was_missed() -> None:
    found = document(row("fp32", 256, "same", 1.0))
    seen = judged(found)
    ratios = slow_downs(found, planted(found))
    assert ratios == {"least": 1.0, "median": 1.1, "most": 1.12}
    facts = {"planted": "a tile", "slow_down": ratios, "pages": [{"name": "compare.html", "verdicts": {"SLOWER": 2}}]}
    text = table(seen, facts, {"compare": 61.2})
    assert "3, found SLOWER 2; ratio least 1.000, median 1.100, most 1.120" in text
    assert text.splitlines()[-1] == f"  {seen.missed[0]}"
    assert "compare.html: 2 SLOWER" in text
    assert "FAILED" in text
    assert "PASSED" in table(judged(document()), facts, {})
