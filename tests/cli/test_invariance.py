"""``fmha validate --invariant`` and ``--require``: exit codes, refusals, and what ``explain`` chooses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fmha_null.kernels import Behaviour, behaviour_of, main_kernels
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.invariance import AROUND, Invariance, parse_required, required_text
from fmha_cli.oracle.tensors import Inputs
from fmha_cli.run.invariance import InvarianceProbe
from fmha_cli.run.rows import Row
from fmha_cli.run.single_launches import Launched
from tests.cli.conftest import Fmha
from tests.support.schema_checks import validator

NULL = ("validate", "--invariant", "--backend", "null", "-H", "1", "-s", "24", "-d", "8", "--dtype", "fp32")


def digest_of(behaviour: Behaviour) -> str:
    kernels = (k for k in main_kernels() if behaviour_of(k) is behaviour and k.signature.dtype is DType.FP32)
    return next(kernels).digest[:16]


def test_a_difference_that_nobody_promised_away_exits_0(fmha: Fmha) -> None:
    done = fmha(*NULL, "--kernel", digest_of(Behaviour.ORDER_BY_THREADS), "--threads", "1", "--json")
    found = json.loads(done.out)
    assert not list(validator("invariance").iter_errors(found))
    assert [row["property"] for row in found["rows"]] == list(Invariance)
    assert found["counts"]["BROKEN"] == 0 or done.code == 1
    assert done.code == (1 if found["counts"]["BROKEN"] else 0)


def test_a_broken_promise_exits_1_and_its_repro_line_does_too(fmha: Fmha) -> None:
    done = fmha(*NULL, "-b", "3", "--kernel", digest_of(Behaviour.TILE_BY_PLACE), "--json")
    row = next(row for row in json.loads(done.out)["rows"] if row["property"] == "batch")
    assert (done.code, row["outcome"], row["stage"]) == (1, "BROKEN", "tile")
    assert row["difference"]["first_bits"] != row["difference"]["second_bits"]
    assert row["repro"].startswith("fmha validate --invariant ")
    again = fmha(*row["repro"].split()[1:])
    assert again.code == 1
    assert "BROKEN" in again.out


def test_a_problem_that_nothing_serves_exits_3(fmha: Fmha) -> None:
    done = fmha(*NULL, "--dropout", "0.5", "--jsonl")
    assert done.code == 3
    assert {json.loads(line)["outcome"] for line in done.out.splitlines()} == {"UNSUPPORTED"}


def test_an_interrupted_run_has_a_row_for_each_property(fmha: Fmha, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = InvarianceProbe.launched

    def interrupted(
        probe: InvarianceProbe, row: Row, inputs: Inputs, threads: int | None, *, first: bool = False
    ) -> Launched:
        if not first:
            raise KeyboardInterrupt
        return launched(probe, row, inputs, threads, first=first)

    monkeypatch.setattr(InvarianceProbe, "launched", interrupted)
    done = fmha(*NULL, "--json")
    rows = json.loads(done.out)["rows"]
    assert done.code == 130
    assert [row["property"] for row in rows] == list(Invariance)
    assert [row["outcome"] for row in rows] == ["HELD", *["NOT_RUN"] * (len(Invariance) - 1)]


def test_options_about_other_rows_are_refused(fmha: Fmha) -> None:
    np.save("s.npy", np.zeros(8, np.float32))
    for words in (
        ("--all-kernels",),
        ("--sink-logits", "s.npy"),
        ("--journal", "j"),
        ("--save-failures", "d"),
        ("--dry-run",),
    ):
        done = fmha(*NULL[:4], *words)
        assert (done.code, done.out) == (2, ""), words
        assert done.err.startswith("error[E002]"), words
    assert fmha(*NULL, "--fill", "normal,coded").code == 2


def test_a_kernel_is_chosen_by_its_promise(fmha: Fmha) -> None:
    few = ("explain", "--backend", "cpu", "-s", "4", "-d", "64", "--dtype", "fp32", "--json")
    plain, required = (json.loads(fmha(*few, *more).out) for more in ((), ("--require", "batch-invariant")))
    assert plain["chosen"] != required["chosen"]
    reasons = [r for d in required["decisions"] if d["kernel"] == plain["chosen"] for r in d["reasons"]]
    assert [reason["id"] for reason in reasons] == ["K032"]
    named = plain["chosen"] if isinstance(plain["chosen"], str) else plain["chosen"]["digest"]
    assert fmha("run", *few[1:-1], "--kernel", named, "--require", "batch").code == 3


def test_the_number_of_splits_that_promises_more_is_the_hint(fmha: Fmha) -> None:
    ask = ("explain", "--backend", "flash_attn", "--arch", "sm_80", "-s", "64", "-d", "64", "--require", "batch")
    done = fmha(*ask)
    assert "it would work with:\n  --splits 1\n" in done.out
    assert "chosen" in fmha(*ask, "--splits", "1").out
    assert "K032" in fmha(*ask, "--splits", "1", "--mask", "window:9,0").out
    states_nothing = fmha("explain", "--backend", "mem_efficient", "--arch", "sm_80", "-s", "64", "--require", "batch")
    assert "the kernel states no promises" in states_nothing.out


def test_an_unknown_property_is_refused_with_near_names(fmha: Fmha) -> None:
    done = fmha("run", "--require", "batches")
    assert done.code == 2
    assert "did you mean batch" in done.err


@given(st.sets(st.sampled_from(list(Invariance))))
def test_a_requirement_is_written_as_it_is_read(required: set[Invariance]) -> None:
    named = tuple(one for one in Invariance if one in required)
    assert parse_required(required_text(named), "--require") == named


def test_the_short_name_stands_for_what_a_server_changes() -> None:
    assert set(parse_required("batch-invariant", "--require")) == AROUND
    assert parse_required("", "--require") == ()
    with pytest.raises(UsageError):
        parse_required("batch,,threads", "--require")
