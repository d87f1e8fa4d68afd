"""What older releases compute otherwise is refused by K938, by the release; and each boundary release bears it out (slow)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api, plugin
from fmha_cli.toolchain import framework
from tests.support.builds.library_releases import CPU, kernels_for, passed, pip_install

library = pytest.importorskip("fmha_onnxruntime", reason="pip install -e plugins/fmha-onnxruntime")
kernels = pytest.importorskip("fmha_onnxruntime.kernels")

BASE = "-H 2 -d 8 --dtype fp32"
CASES = {
    "opset24": ("attention24", f"{BASE} -s 5", "1.24.4"),
    "window": ("gqa", f"{BASE} -s 5 --mask window:2,0", "1.24.4"),
    "capped causal": ("attention23", f"{BASE} -s 5 --softcap 2 --causal", "1.27.0"),
    "capped bias": ("attention24", f"{BASE} -s 5 --softcap 2 --bias elementwise", "1.27.0"),
    "longer": ("attention24", f"{BASE} -b 2 -s 3 --seqlen-k 8 --causal", "1.28.0"),
    "blind": ("attention23", f"{BASE} -s 5 --seqlen-k 3 --causal", "1.28.0"),
}
"""Case -> an operator, a problem, and the first release that computes it as today's does."""

ALWAYS = (
    ("attention23", f"{BASE} -s 5 --causal"),
    ("attention23", f"{BASE} -s 5 --softcap 2"),
    ("gqa", f"{BASE} -s 5 --causal --softcap 2"),
    ("gqa", f"{BASE} -s 3 --seqlen-k 8 --causal"),
    ("mha", f"{BASE} -s 5"),
)
"""What every release computes alike."""


def right(name: str, release: str) -> bool:
    """Whether a release computes a case as today's does."""
    tried = library.BACKEND.tried
    return tried.index(release) >= tried.index(CASES[name][2])


def refused(op: str, line: str) -> bool:
    problem = api.Problem.from_cli(line)
    kernel = next(iter(kernels_for(library.BACKEND, problem, f"op={op}")))
    return "K938" in {reason.id for reason in plugin.reasons_against(kernels.RULES, problem, kernel, CPU)}


@pytest.mark.parametrize("name", CASES)
def test_an_older_release_is_refused_and_the_first_right_one_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, line, _ = CASES[name]
    for release in library.BACKEND.tried:
        monkeypatch.setattr(framework, "find_release", lambda name, release=release: release)
        assert refused(op, line) is not right(name, release), release
    monkeypatch.setattr(framework, "find_release", lambda name: None)
    assert not refused(op, line), "without the library, what is explained is today's release"


def test_what_every_release_computes_alike_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "find_release", lambda name: library.BACKEND.tried[0])
    for op, line in ALWAYS:
        assert not refused(op, line), line


def test_every_fact_has_a_case() -> None:
    assert {fact["case"] for fact in kernels.RELEASES["facts"]} == {name.partition(" ")[0] for name in CASES}
    assert {fact["before"] for fact in kernels.RELEASES["facts"]} <= set(library.BACKEND.tried)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", library.BACKEND.tried)
def test_each_boundary_release_answers_as_the_facts_say(release: str, tmp_path: Path) -> None:
    """The release in a folder of its own: what K938 refuses does not pass there, what it admits passes."""
    library = pip_install(tmp_path / "library", f"onnxruntime=={release}")
    lines = [f"op={op} {line}" for op, line, *_ in (*CASES.values(), *ALWAYS)]
    found = passed("fmha_onnxruntime", library, tmp_path, lines)
    assert found == [*(right(name, release) for name in CASES), *(True for _ in ALWAYS)]
