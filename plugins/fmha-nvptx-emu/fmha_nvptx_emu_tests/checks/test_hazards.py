"""The check ``nvptx_hazards``, which executes what rules refuse: its hazards break their rules alone, and its states say what was seen."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fmha_nvptx_emu", reason="plugins/fmha-nvptx-emu is not installed")
pytest.importorskip("cuda.bindings")

from fmha_cli.api import Problem, Unsupported, build_registry
from fmha_cli.discovery.emulated_devices import emulated_device
from tests.checks import nvptx_hazards
from tests.checks.nvptx_hazards import HAZARDS, NOT_EXECUTED, Hazard
from tests.support.children.cuda.loosened_rule import loosen

IDS = [f"{h.rule} {h.problem}" for h in HAZARDS]
RECORD: dict[str, Any] = {
    "verdict": "PASSED",
    "findings": [],
    "checks": {"o": {"row_l2": 1e-4, "nonfinite": 0}, "lse": None},
    "notes": [],
    "fill_notes": [],
}


@pytest.mark.promise("What a CUDA rule refuses is executed without it, which confirms or withdraws the rule.")
@pytest.mark.parametrize("hazard", HAZARDS, ids=IDS)
def test_its_rule_alone_refuses_a_hazard(hazard: Hazard) -> None:
    """Of the kernel nearest to serving it, so nothing else needs to be loosened."""
    backend = build_registry().backend(hazard.backend)
    decisions = list(
        backend.decide(Problem.from_cli(hazard.problem), emulated_device(build_registry(), "emu:sm_80")[1])
    )
    assert any({reason.id for reason in d.reasons} == {hazard.rule} for d in decisions if isinstance(d, Unsupported))


def test_every_rule_of_memory_efficient_attention_has_a_hazard_or_a_reason() -> None:
    run = {h.rule for h in HAZARDS}
    assert not run & set(NOT_EXECUTED)
    assert {f"K{number}" for number in range(520, 537)} <= run | set(NOT_EXECUTED)


@pytest.mark.promise("What a CUDA rule refuses is executed without it, which confirms or withdraws the rule.")
@pytest.mark.parametrize(
    ("verdict", "state"),
    [("PASSED", "withdrawn"), ("WRONG", "confirmed"), ("OUT_OF_BOUNDS", "confirmed"), ("LAUNCH_FAILED", "confirmed"), ("UNSUPPORTED", "NOT_RUN"), ("NOT_RUN", "NOT_RUN")],
)  # fmt: skip
def test_a_hazard_that_did_not_run_is_never_confirmed(verdict: str, state: str) -> None:
    row = nvptx_hazards.of_record(HAZARDS[0], RECORD | {"verdict": verdict})
    assert row["state"] == state
    assert nvptx_hazards.CHECK.good(row) is (state != "NOT_RUN")


def test_the_table_has_every_row_and_every_rule() -> None:
    found = {"findings": [{"kind": "out-of-bounds"}, {"kind": "out-of-bounds"}], "verdict": "OUT_OF_BOUNDS"}
    text = nvptx_hazards.summary([nvptx_hazards.of_record(HAZARDS[0], RECORD | found)])
    assert "`out-of-bounds` at 2 instructions" in text
    assert all(f"| {rule} | {why} |" in text for rule, why in NOT_EXECUTED.items())


def test_a_rule_that_is_loosened_too_late_is_refused() -> None:
    """The backend of these tests holds the checks already."""
    import fmha_cli.backends.mem_efficient.problem_rules  # noqa: F401

    with pytest.raises(RuntimeError, match="made already"):
        loosen("K521")


@pytest.mark.promise("What a CUDA rule refuses is executed without it, which confirms or withdraws the rule.")
def test_a_bottom_right_mask_with_more_rows_than_keys_is_wrong_upstream() -> None:
    """K521, executed: NVRTC compiles the kernel for half a minute."""
    (hazard,) = (h for h in HAZARDS if h.rule == "K521")
    row = nvptx_hazards.row_of(hazard)
    assert (row["verdict"], row["state"]) == ("WRONG", "confirmed")


def test_a_process_that_fails_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvptx_hazards.loosened_rule, "__name__", "tests.no_such_module")
    with pytest.raises(ValueError, match="no_such_module"):
        nvptx_hazards.row_of(HAZARDS[0])


def test_the_table_says_that_a_cache_is_wrong() -> None:
    note = "k after the append is wrong: 3 of 9 rows differ from the reference; the worst is k[0, 0, 1]"
    record = RECORD | {"verdict": "WRONG", "fill_notes": [{"fill": "normal", "distrust": None, "notes": [note]}]}
    assert "| k after the append is wrong: 3 of 9 rows; worst finite row" in nvptx_hazards.summary([nvptx_hazards.of_record(HAZARDS[0], record)])  # fmt: skip
