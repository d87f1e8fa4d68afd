"""``fmha doctor`` says whether a library's release is in the range with which its rules were tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli.domain.installation import CheckState, Surroundings
from fmha_cli.toolchain import framework


@pytest.mark.parametrize(
    ("here", "state"),
    [
        ("1.23.1", CheckState.WARNING),
        ("1.23.2", CheckState.OK),
        ("1.30.0+cpu", CheckState.OK),
        ("1.32.0", CheckState.OK),
        ("1.33.0", CheckState.WARNING),
        ("2.0", CheckState.WARNING),
    ],
)
def test_a_release_outside_the_tried_range_is_a_warning(
    here: str, state: CheckState, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(framework, "version", lambda name: here)
    (found,) = framework.check_release(
        "a-library",
        ("1.23.2", "1.28.0", "1.32.0"),
        Surroundings(cache_root=tmp_path, environ={}, options={}, notify=print),
    )
    assert (found.state, found.what) == (state, f"{here}; the rules were tried with 1.23.2 to 1.32.0")
    assert (found.help == 'pip install "a-library>=1.23.2,<=1.32.0"') is (state is CheckState.WARNING)


def test_without_the_library_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert (
        list(
            framework.check_release(
                "no-such-library", ("1",), Surroundings(cache_root=tmp_path, environ={}, options={}, notify=print)
            )
        )
        == []
    )
