"""If a tensor is given, no other is generated unasked, whichever tensor it is and wherever it is given."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli import api
from fmha_cli.cli.app import run
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.flags import FILLED
from fmha_cli.oracle.fills import fill
from fmha_cli.run.input_files import FLAG_OF
from fmha_cli.run.request import TENSOR_OF_FLAG
from fmha_cli.run.tensor_files import read_tensor, write_tensors
from tests.support.generators.given_problems import CASES, GivenProblem

Values = Mapping[str, Any]
"""Flag key -> array or ``filled``."""

EACH = [(case, flag) for case, make in CASES.items() for flag in make().tensors]
FIRST = {flag: case for case, flag in reversed(EACH)}
"""The first case that has a tensor."""


def often() -> list[Any]:
    """Each tensor once, and all of a problem whose K and V are a cache; the others, which repeat q, k and v, in CI."""
    return [
        pytest.param(
            case, flag, marks=() if FIRST[flag] == case or case == "pages" else (pytest.mark.slow, pytest.mark.ci)
        )
        for case, flag in EACH
    ]


TOLERANCE = {"scales of queries": 5e-3}
"""Of O; 1e-5 elsewhere. The CPU kernels round the weights of fp8 to bf16."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def by_attention(case: GivenProblem, values: Values) -> None:
    api.attention(**{"q": None, "k": None, **values}, **case.flags, check=False, backend="cpu")


def by_run(case: GivenProblem, values: Values, **options: Any) -> tuple[Any, ...]:
    problem = api.Problem.of(**case.flags, **case.said)
    return api.run(problem, tensors=values, backend="cpu", **{"dry_run": True, **options})


def by_command(case: GivenProblem, values: Values, *options: str) -> Any:
    words = [f"--{key.replace('_', '-')}={_text(value)}" for key, value in case.flags.items()]
    for flag, value in values.items():
        if isinstance(value, np.ndarray):
            write_tensors(Path(f"{flag}.safetensors"), {"x": value})
        words += [f"--{flag.replace('_', '-')}", f"{flag}.safetensors" if isinstance(value, np.ndarray) else value]
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["run", "--backend", "cpu", *words, *(options or ("--dry-run",)), "--json"], os.environ)
    if code == api.UsageError.exit_code:
        raise api.UsageError(err.getvalue())
    assert code == 0, err.getvalue()
    return json.loads(out.getvalue())["records"]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


ENTRIES: Mapping[str, Callable[[GivenProblem, Values], Any]] = {
    "attention": by_attention,
    "run": by_run,
    "command": by_command,
}


def test_the_cases_have_every_tensor() -> None:
    assert {flag for _, flag in EACH} == TENSOR_OF_FLAG.keys()


WORDS = {"alibi_slopes": "filled:bh"}
CHOSEN = {"sink_logits", "alibi_slopes", "rotary_cos", "rotary_sin"}
"""Tensors that a problem has only where they are given or asked for, unless a ``Problem`` says so."""


@pytest.mark.promise("No tensor is generated beside a given one unless `filled` asks for it.")
@pytest.mark.sampled(10, ci="all")
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(("name", "flag"), often())
def test_a_tensor_that_is_not_given_is_refused_by_name(entry: str, name: str, flag: str) -> None:
    if entry != "run" and flag in CHOSEN:
        pytest.skip("without it this is another problem")
    case = CASES[name]()
    with pytest.raises(api.UsageError) as caught:
        ENTRIES[entry](case, {key: value for key, value in case.tensors.items() if key != flag})
    text, tensor = caught.value.render(), TENSOR_OF_FLAG[flag]
    assert f"error[P021]: {tensor} is not given beside " in text
    assert (f"{FLAG_OF[tensor]} {FILLED}" if entry == "command" else f'{flag}="{FILLED}"') in text


@pytest.mark.promise("No tensor is generated beside a given one unless `filled` asks for it.")
@pytest.mark.sampled(3, ci="all")
@pytest.mark.parametrize("entry", ["run", "command"])
@pytest.mark.parametrize(("name", "flag"), often())
def test_the_word_asks_for_it_and_the_record_says_so(entry: str, name: str, flag: str) -> None:
    case = CASES[name]()
    (row,) = ENTRIES[entry](case, {**case.tensors, flag: WORDS.get(flag, FILLED)})
    files = row["inputs"]["files"] if entry == "command" else row.inputs.files
    assert {tensor for tensor, path in files.items() if path == FILLED} == {TENSOR_OF_FLAG[flag]}
    assert set(files) == {TENSOR_OF_FLAG[key] for key in case.tensors}


@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", CASES)
def test_what_is_filled_is_that_of_the_seed_and_what_is_given_is_not(name: str) -> None:
    """A generated tensor is the one that a run without tensors has; all others are those given."""
    case = CASES[name]()
    flag = "q" if name == "pages" else list(case.tensors)[-1]  # another table names pages without keys
    done = api.attention(**{**case.tensors, flag: WORDS.get(flag, FILLED)}, **case.flags, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    assert done.record.inputs.files[TENSOR_OF_FLAG[flag]] == FILLED
    problem = api.Problem.of(**case.flags, **case.said)
    drawn = fill(problem, "normal", 0)[TENSOR_OF_FLAG[flag]]
    again = api.attention(**{**case.tensors, flag: drawn}, **case.flags, backend="cpu")
    for output, values in done.outputs.items():
        np.testing.assert_array_equal(values, again.outputs[output])


@pytest.mark.promise("No tensor is generated beside a given one unless `filled` asks for it.")
@pytest.mark.sampled(1, ci="all")
@pytest.mark.parametrize("name", CASES)
def test_the_outputs_are_those_of_the_tensors_that_were_given(name: str) -> None:
    case, near = CASES[name](), TOLERANCE.get(name, 1e-5)
    done = api.attention(**case.tensors, **case.flags, backend="cpu")
    assert done.verdict is api.Verdict.PASSED
    np.testing.assert_allclose(done.o, case.o, atol=near, rtol=near)
    for output, values in case.more.items():
        np.testing.assert_allclose(done.outputs[output], values, atol=near, rtol=near)
    (row,) = by_run(case, case.tensors, dry_run=False, out=Path("run.npz"))
    (told,) = by_command(case, case.tensors, "--out", "command.npz")
    assert (row.verdict, told["verdict"]) == (api.Verdict.PASSED, "PASSED")
    for file in ("run.npz", "command.npz"):
        np.testing.assert_array_equal(read_tensor(file, "--out", "o"), done.o)


def test_without_any_tensor_all_are_generated() -> None:
    (row,) = api.run(api.Problem.of(heads=1, seqlen=4, hdim=8, bias="elementwise"), backend="null")
    assert row.verdict is api.Verdict.PASSED
    assert row.inputs.files == {}
    assert "filled" not in row.repro


@pytest.mark.slow
@pytest.mark.ci
def test_standard_slopes_are_a_formula_and_the_table_belongs_to_its_pages() -> None:
    case = CASES["gradients"]()
    q, k, v = (case.tensors[name] for name in "qkv")
    assert api.attention(q, k, v, alibi=True, backend="cpu").verdict is api.Verdict.PASSED
    done = api.attention(q, FILLED, FILLED, kv_heads=2, kv_cache="paged:8", cache_seqlens=12, backend="cpu")
    assert done.record.inputs.files == {"q": "(array)", "k": FILLED, "v": FILLED, "block_table": FILLED}
    with pytest.raises(api.UsageError, match="v is not given"):
        api.attention(q, FILLED, kv_heads=2, seqlen_k=12, backend="cpu")


@pytest.mark.slow
@pytest.mark.ci
def test_a_file_whose_name_begins_with_the_word_is_a_file() -> None:
    case = CASES["gradients"]()
    q, k, v = (case.tensors[name] for name in "qkv")
    for name, array in (("q", q), ("k", k), ("v", v)):
        np.save(f"filled_{name}.npy", array)
    done = api.attention("filled_q.npy", Path("filled_k.npy"), "filled_v.npy", backend="cpu")
    np.testing.assert_array_equal(done.o, api.attention(q, k, v, backend="cpu").o)
    for word in ("filled:h", "filled:"):
        with pytest.raises(api.UsageError, match=r"sink_logits=.filled"):
            api.attention(q, k, v, sink_logits=word, backend="cpu")


def test_the_command_that_repeats_a_row_asks_for_what_was_filled() -> None:
    case = CASES["gradients"]()
    (row,) = by_command(case, {**case.tensors, "do": FILLED})
    assert row["repro"].count(" --do filled") == 1
    assert " --q q.safetensors" in row["repro"]


@pytest.mark.parametrize("flag", sorted(key for key in TENSOR_OF_FLAG if key in BY_KEY))
def test_a_problem_takes_no_tensor(flag: str) -> None:
    for value in ("file.npy", np.ones(2, np.float32)):
        tables = dict.fromkeys(("rotary_cos", "rotary_sin"), FILLED) | {"rotary": 16} if "rotary" in flag else {}
        flags = {"kv_cache": "paged:8", "append": 1, "qscale": "tensor", "dtype": "fp8_e4m3", "seqlen": 1}
        with pytest.raises(api.UsageError) as caught:
            api.Problem.of(**{**flags, **tables, flag: value})
        assert caught.value.code == "P023", caught.value.render()
    with pytest.raises(api.UsageError):
        api.Problem.from_cli(f"--{flag.replace('_', '-')} file.npy")
