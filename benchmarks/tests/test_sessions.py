"""The parts of ``sessions.py`` that need no PyTorch."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from revisions import ROOT
from sessions import RoundTrip, attending, leavings, medians


def test_sides_take_turns_and_the_slower_one_has_the_larger_median() -> None:
    order: list[str] = []

    def side(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    found = medians({"a": lambda: side("a", 0.0), "b": lambda: side("b", 0.002)}, 4)
    assert order == ["a", "b"] * 14
    assert found["b"]["low"] <= found["b"]["median"] <= found["b"]["high"]
    assert found["b"]["median"] > found["a"]["median"]


def test_a_child_answers_each_message_of_its_length() -> None:
    pipe = RoundTrip(300_000, 100_000)
    try:
        for _ in range(3):
            pipe()
    finally:
        pipe.close()


def test_a_tree_answers_with_its_own_modules(tmp_path: Path) -> None:
    with attending(ROOT) as call:
        call()
    (tmp_path / "fmha_cli").mkdir()
    (tmp_path / "fmha_cli" / "__init__.py").write_text("raise SystemExit")
    with pytest.raises(RuntimeError, match="nothing was imported"), attending(tmp_path):
        pass


@pytest.mark.slow
@pytest.mark.ci
def test_what_calls_leave_behind_is_counted() -> None:
    found = leavings(50)
    assert len(found) == 6
    for name in ("files of the caller", "files of the worker"):
        before, after = found[name]
        assert before == after
