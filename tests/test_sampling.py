"""A sampled test leaves as many cases to README's command as it says, as many to CI, and the slow suite has the others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.sampling import leave_a_sample

ROOT = Path(__file__).resolve().parents[1]


class SampledItem:
    """As much of ``pytest.Item`` as matters here."""

    def __init__(self, name: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid, self.path, self._marks = (
            f"tests/test_a.py::{name}",
            Path("tests/test_a.py"),
            [m.mark for m in marks],
        )

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self._marks if mark.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self._marks.append(mark.mark)

    @property
    def slow(self) -> bool:
        return self.get_closest_marker("slow") is not None

    @property
    def ci(self) -> bool:
        return self.get_closest_marker("ci") is not None


def left(cases: Sequence[Any]) -> set[str]:
    leave_a_sample(cases)
    return {case.nodeid.rpartition("::")[2] for case in cases if not case.slow}


def test_as_many_cases_are_left_as_the_mark_says_and_always_the_same() -> None:
    def cases() -> list[SampledItem]:
        some = [SampledItem(f"test_many[{n}]", pytest.mark.sampled(3)) for n in range(10)]
        return [
            *some,
            SampledItem("test_many[10]", pytest.mark.sampled(3), pytest.mark.slow),
            *(SampledItem(f"test_all[{n}]") for n in range(4)),
        ]

    found = left(cases())
    assert {name for name in found if name.startswith("test_all")} == {f"test_all[{n}]" for n in range(4)}
    many = {name for name in found if name.startswith("test_many")}
    assert len(many) == 3
    assert "test_many[10]" not in many, "it was slow before"
    assert left(random.Random(1).sample(cases(), 15)) == found


def test_a_case_that_is_asked_for_by_name_stays() -> None:
    for n in range(10):
        assert left([SampledItem(f"test_many[{n}]", pytest.mark.sampled(3))]) == {f"test_many[{n}]"}


def test_two_tests_are_sampled_apart() -> None:
    cases = [SampledItem(f"test_{name}[{n}]", pytest.mark.sampled(2)) for name in "ab" for n in range(5)]
    assert sorted(name[:6] for name in left(cases)) == ["test_a", "test_a", "test_b", "test_b"]


@pytest.mark.parametrize(("ci", "count"), [("all", 10), (7, 7), (3, 3), (99, 10)])
def test_ci_runs_as_many_cases_in_all_as_the_mark_says(ci: str | int, count: int) -> None:
    cases = [SampledItem(f"test_many[{n}]", pytest.mark.sampled(3, ci=ci)) for n in range(10)]
    slow = SampledItem("test_many[10]", pytest.mark.sampled(3, ci=ci), pytest.mark.slow)
    leave_a_sample([*cases, slow])
    assert sum(not case.slow for case in cases) == 3
    assert sum(case.slow and case.ci for case in cases) == count - 3
    assert not any(case.ci and not case.slow for case in cases), "CI would run it twice"
    assert not slow.ci, "it was slow before"


def test_ci_alone_may_run_a_test_whose_other_cases_are_slow() -> None:
    cases = [SampledItem(f"test_many[{n}]", pytest.mark.sampled(0, ci="all")) for n in range(3)]
    slow = SampledItem("test_many[3]", pytest.mark.sampled(0, ci="all"), pytest.mark.slow)
    leave_a_sample([*cases, slow])
    assert all(case.slow and case.ci for case in cases)
    assert not slow.ci


@pytest.mark.parametrize(
    "mark",
    [
        pytest.mark.sampled,
        pytest.mark.sampled(0),
        pytest.mark.sampled("3"),
        pytest.mark.sampled(1, 2),
        pytest.mark.sampled(3, ci=2),
        pytest.mark.sampled(3, ci="some"),
        pytest.mark.sampled(3, slow=4),
    ],
)
def test_a_mark_without_a_number_is_refused(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(pytest.UsageError, match=r"sampled (needs a number of cases|takes ci=)"):
        leave_a_sample([SampledItem("test_many[1]", mark)])  # type: ignore[list-item]


def test_every_run_samples_before_slow_tests_are_left_out(request: pytest.FixtureRequest) -> None:
    (hook,) = (
        plugin.pytest_collection_modifyitems
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(ROOT / "conftest.py")
    )
    cases = [SampledItem(f"test_many[{n}]", pytest.mark.sampled(3)) for n in range(10)]
    hook(request.config, cases)
    assert sum(not case.slow for case in cases) == 3
    assert hook.pytest_impl["tryfirst"]
