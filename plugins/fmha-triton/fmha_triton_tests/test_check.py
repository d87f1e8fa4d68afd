"""``benchmarks/triton_check.py --resume``: an earlier row stands for the kernels that it was executed with, not for its problem."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fmha_triton", reason="plugins/fmha-triton is not installed")

import triton_check
from fmha_triton import building
from triton_cases import Case

ARCH, CASE = "gfx942", Case("both passes", "-H 2 -s 50 -d 64 --dtype fp16 --causal --direction fwd+bwd")
POINTS = [(ARCH, CASE)]


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "triton_version", lambda: "3.9.0")


def row(**changes: Any) -> dict[str, Any]:
    build = triton_check.build_of(ARCH, CASE)
    return {"arch": ARCH, "flags": CASE.flags, "verdict": "PASSED", "why": None, "build": build} | changes


def test_a_row_of_the_same_kernels_stands() -> None:
    assert triton_check.kept([row()], POINTS) == {(ARCH, CASE.flags): row()}


@pytest.mark.parametrize("changes", [{"verdict": "WRONG"}, {"build": "0" * 64}, {"build": None}, {"arch": "gfx950"}])
def test_another_row_does_not(changes: dict[str, Any]) -> None:
    assert triton_check.kept([row(**changes)], POINTS) == {}


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_a_row_falls_with_the_text_of_any_of_its_kernels_and_with_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kernel of the plan is that of the forward pass, the last that of the gradients."""
    old, emit = [row()], building.emit
    for family in ("fwd", "bwd_dq_dk_dv"):
        with monkeypatch.context() as patch:
            patch.setattr(building, "emit", lambda k, family=family: emit(k) + "#" * (k.family.value == family))
            assert triton_check.kept(old, POINTS) == {}
    assert triton_check.kept(old, POINTS)
    monkeypatch.setattr(building, "triton_version", lambda: "99.0")
    assert triton_check.kept(old, POINTS) == {}


def test_what_nothing_supports_has_no_build() -> None:
    assert triton_check.build_of(ARCH, Case("forward", "-H 2 -s 50 -d 20 --dtype fp16")) is None


def test_rows_that_are_not_asked_for_are_kept() -> None:
    other = row(arch="gfx950")
    assert triton_check.others([row(), other], POINTS) == [other]


@pytest.mark.promise("A check counts a row only for the kernel that it names, and says what did not run.")
def test_the_script_executes_again_what_does_not_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, stale = tmp_path / "rows.json", Case("forward", "-H 2 -s 50 -d 64 --dtype fp16")
    old = [row(kernel="kept"), row(flags=stale.flags, kernel="stale")]
    file.write_text(json.dumps({"rows": old}), "utf-8")
    monkeypatch.setattr(triton_check, "all_cases", lambda: (CASE, stale))
    monkeypatch.setattr(triton_check, "executed", lambda arch, case: row(flags=case.flags, kernel="new"))
    monkeypatch.setattr(triton_check.importlib.metadata, "version", lambda name: "3.9.0")
    monkeypatch.setattr(sys, "argv", ["triton_check.py", "--arch", ARCH, "--json", str(file), "--resume"])
    assert triton_check.main() == 0
    assert [found["kernel"] for found in json.loads(file.read_text("utf-8"))["rows"]] == ["kept", "new"]
