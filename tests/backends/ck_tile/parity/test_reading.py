"""The reader of the programs' output: it reads every form correctly, and unclear output never counts as a pass."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fmha_cli.backends.ck_tile.parity import reading
from fmha_cli.backends.ck_tile.parity.case import BINARIES
from fmha_cli.domain.counterpart import Program, Ran, Said
from fmha_cli.domain.verdict import Verdict
from fmha_cli.parity import outcome
from fmha_cli.parity.programs import run_program
from fmha_cli.report.documents.parity import ParityOutcome
from tests.support.fakes.example_programs import write_standins
from tests.support.generators.ck_tile.cases import ck_case

FORMS: dict[str, Said] = {
    "valid": Said.VALID,
    "wrong": Said.WRONG,
    "unsupported": Said.UNSUPPORTED,
    "refused": Said.UNSUPPORTED,
    "refused-heads": Said.UNSUPPORTED,
    "precision": Said.UNSUPPORTED,
    "ignoring": Said.IGNORED,
    "ignoring-two-lines": Said.IGNORED,
    "other-batch": Said.OTHER,
    "wrong-truncated": Said.UNREADABLE,
    "truncated": Said.UNREADABLE,
    "truncated-after-times": Said.UNREADABLE,
    "truncated-answer": Said.UNREADABLE,
    "no-line-break": Said.UNREADABLE,
    "longer-answer": Said.UNREADABLE,
    "garbage": Said.UNREADABLE,
    "garbage-around": Said.UNREADABLE,
    "silent": Said.UNREADABLE,
    "silent-254": Said.UNREADABLE,
    "odd-complaint-254": Said.UNREADABLE,
    "head-254": Said.UNREADABLE,
    "valid-254": Said.UNREADABLE,
    "valid-255": Said.UNREADABLE,
    "wrong-0": Said.UNREADABLE,
    "unsupported-0": Said.UNREADABLE,
    "unsupported-after-times": Said.UNREADABLE,
    "twice": Said.UNREADABLE,
    "nan": Said.UNREADABLE,
    "unchecked": Said.UNREADABLE,
    "segv": Said.CRASHED,
    "abort-after-valid": Said.CRASHED,
    "exit-2": Said.CRASHED,
    "hip-error": Said.FAILED,
    "hip-error-after-times": Said.FAILED,
    "no-device": Said.NO_DEVICE,
    "unsupported-for-want-of-a-device": Said.NO_DEVICE,
    "another-gpu": Said.NO_DEVICE,
    "no-library": Said.NO_DEVICE,
    "no-symbol": Said.NO_DEVICE,
    "another-symbol": Said.CRASHED,
    "another-library": Said.CRASHED,
    "usage": Said.USAGE,
    "invalid-argument": Said.USAGE,
}
"""Form of the stand-in's output -> its meaning."""

CASES = {
    "fwd": ck_case("f", Program.FWD, {"prec": "fp16", "b": "2", "h": "4", "h_k": "2", "s": "64", "s_k": "96", "mask": "b:4,35", "bias": "e", "lse": "1", "p_drop": "0.2", "operm": "0", "kname": "1"}),
    "bwd": ck_case("b", Program.BWD, {"prec": "bf16", "b": "1", "h": "4", "s": "259", "d": "64", "mode": "1", "bias": "a", "deterministic": "1", "kname": "1"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def say(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Ran]:
    """Run a stand-in, once for each form and program."""
    folder = write_standins(tmp_path_factory.mktemp("standins"))

    @cache
    def run(program: str, form: str) -> Ran:
        case = CASES[program]
        path = folder / BINARIES[case.program]
        return run_program(path, case.argv(), {**os.environ, "STANDIN": form}, 0.5 if form == "hang" else 30)

    return run


@pytest.mark.sampled(20, ci="all")
@pytest.mark.parametrize("program", CASES)
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_as_what_it_is(say: Callable[[str, str], Ran], program: str, form: str) -> None:
    found = reading.read(say(program, form), CASES[program])
    assert found.said is FORMS[form], found
    assert found.why or found.said is Said.VALID


def test_a_program_that_hangs_is_killed_although_it_said_valid(say: Callable[[str, str], Ran]) -> None:
    assert reading.read(say("fwd", "hang"), CASES["fwd"]).said is Said.TIMED_OUT


def test_what_a_pass_holds(say: Callable[[str, str], Ran]) -> None:
    found = reading.read(say("fwd", "valid"), CASES["fwd"])
    assert found.ms == 0.025
    assert found.kernels[0].startswith("fmha_fwd_d128_fp16_batch_")
    assert len(reading.read(say("bwd", "valid"), CASES["bwd"]).kernels) == 3


def test_a_run_without_validation_is_no_pass(say: Callable[[str, str], Ran]) -> None:
    found = reading.read(say("fwd", "unchecked"), CASES["fwd"], validated=False)
    assert (found.said, found.ms) == (Said.UNCHECKED, 0.025)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("prec", "bf16"), ("mode", "1"), ("b", "3"), ("h", "8"), ("h_k", "4"), ("s", "65"), ("s_k", "97"), ("d", "64"),
        ("d_v", "64"), ("mask", "b:4,36"), ("mask", "t:4,35"), ("bias", "n"), ("lse", "0"), ("p_drop", "0.3"),
        ("operm", "1"), ("iperm", "0"), ("num_splits", "2"), ("page_block_size", "128"), ("rotary_dim", "16"),
    ],
)  # fmt: skip
def test_a_line_of_other_settings_is_no_pass(say: Callable[[str, str], Ran], option: str, value: str) -> None:
    """The program's line shows what it ran. It does not count for a case that differs in one setting."""
    case = ck_case("x", Program.FWD, {**CASES["fwd"].settings, option: value})
    found = reading.read(say("fwd", "valid"), case)
    assert found.said is Said.OTHER
    assert option.split("_")[0] in found.why or option in ("iperm", "operm")


MUTATIONS = {
    "exit code 0 is a pass": ('if (answer, ran.returncode) == ("y", _OK)', "if ran.returncode == _OK"),
    "valid:y is a pass whatever the code": ('if (answer, ran.returncode) == ("y", _OK)', 'if answer == "y"'),
    "valid:n is a wrong result whatever the code": ('if (answer, ran.returncode) == ("n", _REFUSED)', 'if answer == "n"'),
    "exit code 254 is unsupported": ("if line.endswith(_UNSUPPORTED) and", "if ran.returncode == _REFUSED and"),
    "the code of an unsupported case does not matter": ("if ran.returncode != _REFUSED:\n            return Reading(Said.UNREADABLE, f\"'not", "if False:\n            return Reading(Said.UNREADABLE, f\"'not"),
    "a cut line may pass": ('(?P<valid>, valid:(?P<answer>[yn]))?$"', '(?P<valid>, valid:(?P<answer>[yn]))?"'),
    "a missing line break does not matter": ('if not ran.stdout.endswith("\\n"):', "if False:"),
    "lines that say 'ignoring' do not matter": ("    if ignored:\n", "    if False:\n"),
    "odd exit codes do not matter": ("if ran.returncode not in (_OK, _REFUSED, _USAGE):", "if False:"),
    "timeouts do not matter": ("if ran.timed_out:", "if False:"),
    "several lines do not matter": ("if len(lines) > 1:", "if False:"),
    "any time will do": ('if not 0 <= ms < float("inf"):', "if False:"),
    "the settings shown do not matter": ("    if other:\n        return Reading(Said.OTHER, other, line, names, ms)\n", ""),
    "a missing answer is a pass": ("if answer is None and validated:", "if answer is None:\n        return Reading(Said.VALID)\n    if answer is None and validated:"),
    "every complaint with 254 is a refusal": ("if any(r in t for r in _REFUSALS)", ""),
    "an exception says nothing": ('t.startswith("Error: ")', 't.startswith("Oops: ")'),
    "a wrong gradient is an exception": (' and "Incorrect results" not in t', ""),
    "a usage error is unsupported": ("return Reading(Said.USAGE,", "return Reading(Said.UNSUPPORTED,"),
    "a missing device is a missing instance": ("if any(word in text for word in _NO_DEVICE) and", "if False and"),
    "any missing symbol is a missing device": ("_LOADING.search(text)", "True"),
    "a missing library is a crash": ("if ran.returncode == _LOADER and", "if False and"),
}  # fmt: skip


@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_in_the_reader_is_seen(say: Callable[[str, str], Ran], tmp_path: Path, name: str) -> None:
    """Each fault changes the reading of at least one form, so the table above detects all of them."""
    old, new = MUTATIONS[name]
    broken = mutated(reading, old, new, tmp_path)
    found = {}
    for form in [*FORMS, "hang"]:
        for program, case in CASES.items():
            if form == "hang" and program == "bwd":
                continue
            try:
                found[program, form] = broken.read(say(program, form), case).said.value
            except (TypeError, KeyError, AttributeError, ValueError):
                found[program, form] = "raised"
    want = {(p, f): FORMS.get(f, Said.TIMED_OUT).value for p, f in found}
    assert found != want, f"no form shows that {name}"


def mutated(module: ModuleType, old: str, new: str, folder: Path) -> Any:
    """The module with one piece of text replaced, loaded alongside the real one."""
    assert module.__file__ is not None
    text = Path(module.__file__).read_text("utf-8")
    assert old in text, f"the text to break is gone: {old}"
    path = folder / "broken.py"
    path.write_text(text.replace(old, new, 1))
    spec = importlib.util.spec_from_file_location("broken_reading", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["broken_reading"] = loaded
    try:
        spec.loader.exec_module(loaded)
    finally:
        del sys.modules["broken_reading"]
    return loaded


AGREEMENTS = {
    (Said.VALID, Verdict.PASSED): ParityOutcome.AGREE_PASS,
    (Said.UNSUPPORTED, Verdict.UNSUPPORTED): ParityOutcome.AGREE_UNSUPPORTED,
    (Said.WRONG, Verdict.WRONG): ParityOutcome.AGREE_FAIL,
    (Said.WRONG, Verdict.MISTRUSTED): ParityOutcome.AGREE_FAIL,
    (Said.WRONG, Verdict.NONDETERMINISTIC): ParityOutcome.AGREE_FAIL,
    (Said.WRONG, Verdict.HAZARD): ParityOutcome.AGREE_FAIL,
    (Said.WRONG, Verdict.OUT_OF_BOUNDS): ParityOutcome.AGREE_FAIL,
}
"""The only pairs of results that agree."""

NO_COMPARISON = {ParityOutcome.NOT_RUN, ParityOutcome.CRASHED, ParityOutcome.TIMED_OUT, ParityOutcome.NOT_COMPARABLE}


@pytest.mark.sampled(20, ci="all")
@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("said", Said)
def test_only_these_pairs_agree(said: Said, verdict: Verdict) -> None:
    found = outcome.judge(verdict, reading.Reading(said))
    if (said, verdict) in AGREEMENTS:
        assert found is AGREEMENTS[said, verdict]
    else:
        assert found in NO_COMPARISON | {ParityOutcome.WE_FAIL, ParityOutcome.THEY_FAIL}
    if Verdict.NOT_RUN is verdict or said is Said.NO_DEVICE:
        assert found is ParityOutcome.NOT_RUN
    elif verdict is Verdict.PASSED and found not in NO_COMPARISON and said is not Said.VALID:
        assert found is ParityOutcome.THEY_FAIL
    elif said is Said.VALID and found not in NO_COMPARISON and verdict is not Verdict.PASSED:
        assert found is ParityOutcome.WE_FAIL


FAULTS = {
    "a pass of ours is an agreement": ("ParityOutcome.AGREE_PASS if verdict is Verdict.PASSED else ParityOutcome.WE_FAIL", "ParityOutcome.AGREE_PASS"),
    "two failures of any kind agree": ("    return ParityOutcome.THEY_FAIL\n", "    return ParityOutcome.AGREE_FAIL\n"),
    "unsupported there is unsupported": ("ParityOutcome.AGREE_UNSUPPORTED if verdict is Verdict.UNSUPPORTED else ParityOutcome.WE_FAIL", "ParityOutcome.AGREE_UNSUPPORTED"),
    "an unreadable output is unsupported": ("if said is Said.UNSUPPORTED:", "if said in (Said.UNSUPPORTED, Said.UNREADABLE):"),
    "what did not run agrees": ("return ParityOutcome.NOT_RUN", "return ParityOutcome.AGREE_UNSUPPORTED"),
    "a build that failed is a wrong result": ("if verdict.exit_code is ExitCode.WRONG)", "if verdict.exit_code in (ExitCode.WRONG, ExitCode.FAILED))"),
    "wrong here and wrong there pass": ("ParityOutcome.AGREE_FAIL if verdict in WRONG", "ParityOutcome.AGREE_PASS if verdict in WRONG"),
    "a crash is not told": ("if verdict is Verdict.CRASHED or said is Said.CRASHED:", "if False:"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_in_the_judge_is_seen(tmp_path: Path, name: str) -> None:
    broken = mutated(outcome, *FAULTS[name], tmp_path)
    pairs = [(said, verdict) for said in Said for verdict in Verdict]
    found = [broken.judge(verdict, reading.Reading(said)).value for said, verdict in pairs]
    allowed = [AGREEMENTS.get(pair) for pair in pairs]
    wrong = [f for f, a in zip(found, allowed, strict=True) if (f.startswith("agree") or a is not None) and f != a]
    told = [
        f == "crashed"
        for f, (said, verdict) in zip(found, pairs, strict=True)
        if said is Said.CRASHED and verdict is not Verdict.NOT_RUN
    ]
    assert wrong or not all(told), f"no pair shows that {name}"


@pytest.mark.promise("`parity` compares with upstream's programs, and says why a case cannot be compared.")
@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([ParityOutcome.AGREE_PASS, ParityOutcome.AGREE_UNSUPPORTED, ParityOutcome.NOT_COMPARABLE], 0),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.WE_FAIL, ParityOutcome.CRASHED, ParityOutcome.NOT_RUN], 1),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.THEY_FAIL], 1),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.AGREE_FAIL], 1),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.CRASHED, ParityOutcome.MISSING_BINARY], 6),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.TIMED_OUT], 6),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.MISSING_BINARY], 4),
        ([ParityOutcome.AGREE_PASS, ParityOutcome.NOT_RUN], 4),
        ([ParityOutcome.NOT_COMPARABLE, ParityOutcome.NOT_COMPARABLE], 4),
        ([], 0),
    ],
)
def test_exit_codes(outcomes: list[ParityOutcome], code: int) -> None:
    assert outcome.exit_code_of(outcomes) == code
    assert outcome.exit_code_of(outcomes, interrupted=True) == 130
