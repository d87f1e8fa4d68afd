"""Choosing among the kernels of a newer revision, which can be explained and planned, but not built."""

from __future__ import annotations

from pathlib import Path

import pytest

from fmha_cli import api
from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.cli.app import run
from fmha_cli.codegen.ck_tile.algorithm import algorithm_of
from fmha_cli.discovery.registry import build_registry
from fmha_cli.discovery.select import Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.problem import Problem

pytestmark = pytest.mark.promise("`--ck-rev` chooses among another revision's kernels, and says what a build needs.")

NEWER = "2026-08"
SINK = "--mask b:64,0 --sink 4 --splits 1"


def answer(arch: str, line: str, revision: str | None) -> Selection:
    registry = build_registry().at_revisions({"ck_tile": revision} if revision else {})
    return select(Problem.from_cli(line), registry, {}, Wanted(backend="ck_tile", arch=arch))


@pytest.mark.sampled(0, ci="all")
@pytest.mark.parametrize(
    ("arch", "line"),
    [
        ("gfx942", SINK),
        pytest.param("gfx950", f"{SINK} --kv-cache paged:128 --cache-seqlens 300", marks=pytest.mark.slow),
        ("gfx1100", "-s 64 --splits 1"),
        ("gfx1250", "-s 64 --dtype bf16 --causal --splits 1"),
    ],
)
def test_kernels_that_only_the_newer_revision_has(arch: str, line: str) -> None:
    assert answer(arch, line, None).best is None
    best = answer(arch, line, NEWER).best
    assert best is not None
    assert algorithm_of(best.kernel).rev == NEWER
    backend = CkTileBackend().at_revision(NEWER)
    plan = backend.plan(Problem.from_cli(line), best.kernel, best.device)
    assert {algorithm_of(stage.kernel).rev for stage in plan.stages} == {NEWER}


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize(
    "line", ["--splits 4", "--direction bwd", "--direction bwd --deterministic", "-s 1 --append 1 --kv-cache linear"]
)
def test_every_stage_is_of_the_revision(line: str) -> None:
    best = answer("gfx942", line, NEWER).best
    assert best is not None
    plan = CkTileBackend().at_revision(NEWER).plan(Problem.from_cli(line), best.kernel, best.device)
    assert len(plan.stages) > 1
    assert {algorithm_of(stage.kernel).rev for stage in plan.stages} == {NEWER}


def test_the_default_revision_decides_as_before() -> None:
    problem, device = Problem.from_cli("-s 100 --causal"), DeviceFacts.of_arch("gfx942")
    assert list(CkTileBackend().at_revision("baseline").decide(problem, device)) == list(
        CkTileBackend().decide(problem, device)
    )
    assert CkTileBackend().at_revision("2025-11").revision == "baseline"
    with pytest.raises(UsageError):
        build_registry().at_revisions({"ck_tile": "2024"})


def test_an_architecture_without_kernels_names_the_revision_that_has_some() -> None:
    (reason,) = answer("gfx1100", "-s 64", None).trace.reasons()
    assert reason.id == "K390"
    assert f"--ck-rev {NEWER}" in str(reason.hint)


@pytest.mark.slow
@pytest.mark.ci
def test_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fmha(*argv: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(
            (*argv, "--backend", "ck_tile", "--arch", "gfx942", *SINK.split()), {"XDG_CONFIG_HOME": str(tmp_path)}
        )
        return (code, *capfd.readouterr())

    assert fmha("plan")[0] == 3
    code, out, _ = fmha("plan", "--ck-rev", NEWER, "--json")
    assert (code, "sink=yes" in out, f"rev={NEWER}" in out) == (0, True, True)
    code, out, _ = fmha("explain", "--ck-rev", NEWER)
    assert (code, "0 supported" in out) == (0, False)
    assert fmha("explain", "--ck-rev", "foo")[0] == 2


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("command", ["run", "validate", "build"])
def test_it_cannot_be_built_and_nothing_is_fetched(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(*_: object, **__: object) -> object:
        raise AssertionError("sources were looked for")

    monkeypatch.setattr("fmha_cli.backends.ck_tile.building.ck_tree", fetch)
    argv = (
        command,
        "--arch",
        "gfx942",
        *SINK.split(),
        "--ck-rev",
        NEWER,
        "--cache-dir",
        str(tmp_path / "cache"),
        "--json",
    )
    assert run(argv, {"XDG_CONFIG_HOME": str(tmp_path)}) == 4
    out, _ = capfd.readouterr()
    assert "B040" in out
    assert "--ck-home DIR" in out
    assert command == "build" or f"--ck-rev {NEWER}" in out.partition('"repro":')[2].splitlines()[0]
    assert api.Verdict.NOT_RUN in out or command == "build"
