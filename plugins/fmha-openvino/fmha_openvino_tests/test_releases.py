"""What older releases compute otherwise is refused by K952, by the release; and each boundary release bears it out (slow)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, plugin
from fmha_cli.toolchain import framework
from tests.support.builds.library_releases import CPU, kernels_for, passed, pip_install

library = pytest.importorskip("fmha_openvino", reason="pip install -e plugins/fmha-openvino")

BASE = "-H 2 -d 8 --dtype fp32"
CASES = {
    "mask bottom right": (f"{BASE} -s 5 --seqlen-k 9 --causal", "2025.3.0"),
    "mask window": (f"{BASE} -s 9 --mask window:3,0", "2025.3.0"),
    "mask fewer key heads": ("-H 4 --kv-heads 2 -d 8 --dtype bf16 -s 5 --mask causal-tl", "2025.3.0"),
}
"""Case -> a problem, and the first release that computes it as today's does."""

ALWAYS = (
    f"{BASE} -s 5",
    f"{BASE} -s 5 --causal",
    f"{BASE} -s 5 --bias elementwise:1hss",
    "-H 4 --kv-heads 2 -d 8 --dtype fp16 -s 5",
    "-H 3 -s 64 -d 64 --dtype fp32 --layout bshd",  # rows are divided among threads, where there are two of them
    "-H 1 -s 33 -d 8 --dtype fp32 --layout bhsd",
)
"""What every release computes alike."""


def right(name: str, release: str) -> bool:
    """Whether a release computes a case as today's does."""
    tried = library.BACKEND.tried
    return tried.index(release) >= tried.index(CASES[name][1])


def refused(line: str) -> bool:
    problem = api.Problem.from_cli(line)
    kernel = next(iter(kernels_for(library.BACKEND, problem, "precision=f32")))
    return "K952" in {reason.id for reason in plugin.reasons_against(library.RULES, problem, kernel, CPU)}


@pytest.mark.parametrize("name", CASES)
def test_an_older_release_is_refused_and_the_first_right_one_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for release in library.BACKEND.tried:
        monkeypatch.setattr(framework, "find_release", lambda name, release=release: release)
        assert refused(CASES[name][0]) is not right(name, release), release
        assert not any(map(refused, ALWAYS)), release
    monkeypatch.setattr(framework, "find_release", lambda name: None)
    assert not refused(CASES[name][0]), "without the library, what is explained is today's release"


def test_every_fact_has_a_case() -> None:
    assert {fact["case"] for fact in library.RELEASES["facts"]} == {name.partition(" ")[0] for name in CASES}
    assert {fact["before"] for fact in library.RELEASES["facts"]} <= set(library.BACKEND.tried)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", library.BACKEND.tried)
def test_each_boundary_release_answers_as_the_facts_say(release: str, tmp_path: Path) -> None:
    """The release in a folder of its own: what K952 refuses does not pass there, what it admits passes."""
    library = pip_install(tmp_path / "library", f"openvino=={release}")
    lines = [f"precision=f32 {line}" for line in (*(line for line, _ in CASES.values()), *ALWAYS)]
    found = passed("fmha_openvino", library, tmp_path, lines)
    assert found == [*(right(name, release) for name in CASES), *(True for _ in ALWAYS)]
