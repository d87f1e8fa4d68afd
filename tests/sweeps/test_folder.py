"""A sweep on disk: what was asked for comes back, and names find it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.layer import Layer, LayerKind, LayerPhase
from fmha_cli.run.request import Command, Request
from fmha_cli.sweeps.folder import SPEC, Spec, named_sweep, read_spec, remove, unfinished, write_spec

ONE = Spec(
    run="ab12" + "0" * 28,
    started="2026-01-01T00:00:00Z",
    argv=("sweep", "-s", "16"),
    request=Request(command=Command.VALIDATE, oracle_s=float("inf"), label="night", ab=("a", "b")),
    points=("-s 16 --mask causal", "-s 32"),
    layers=(Layer(model="m", kind=LayerKind.LOCAL, phase=LayerPhase.DECODE, weight=3), None),
    devices="all",
    scheduler="local",
    chunk=16,
    retries=2,
    silence_s=60.0,
)


def test_what_was_asked_for_comes_back(tmp_path: Path) -> None:
    assert read_spec(write_spec(tmp_path, ONE)) == ONE


def test_names_of_unfinished_sweeps(tmp_path: Path) -> None:
    assert unfinished(tmp_path) == ()
    older, newer = (
        write_spec(tmp_path, replace(ONE, run=run + "0" * 28, request=replace(ONE.request, label=label)))
        for run, label in (("ab12", "night"), ("ab34", None))
    )
    os.utime(older / SPEC, (0, 0))
    assert list(unfinished(tmp_path)) == [newer, older]
    for name in ("ab12", "night", str(older)):
        assert named_sweep(tmp_path, name) == older
    assert named_sweep(tmp_path, "latest") == newer
    for name in ("ab", "cd56", "latest~1", ""):
        with pytest.raises(UsageError) as caught:
            named_sweep(tmp_path, name)
        assert caught.value.code == "E051"
    remove(newer)
    assert named_sweep(tmp_path, "latest") == older


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "fmha.sweep-folder/2"}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    folder = write_spec(tmp_path, ONE)
    (folder / SPEC).write_text(text)
    with pytest.raises(UsageError) as caught:
        read_spec(folder)
    assert caught.value.where == str(folder / SPEC)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "sweeps").write_text("")
    with pytest.raises(EnvironmentProblem) as caught:
        write_spec(tmp_path, ONE)
    assert caught.value.code == "X060"
