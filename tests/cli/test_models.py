"""``--model``, ``--phase`` and ``--tp`` on the command line, and ``fmha models``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.cli.completion import completer
from fmha_cli.discovery.models import presets
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from fmha_cli.run import protocol
from fmha_cli.run.arena import check_device
from fmha_cli.run.rows import Row
from tests.cli.conftest import Fmha, Result
from tests.support.schema_checks import validator

TINY: Mapping[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 64,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "query_pre_attn_scalar": 16,
    "sliding_window": 4,
}
"""Six local layers and a global one."""

NULL = ("--backend", "null")
QUICK = ("--budget", "0.01", "--peak", "spec")
DRY = ("run", *NULL, "--dry-run", "--json")


@pytest.fixture
def tiny(home: Path) -> str:
    (home / "work" / "config.json").write_text(json.dumps(TINY), "utf-8")
    return "./config.json"


def rows(done: Result, *members: str) -> list[tuple[Any, ...]]:
    """Members of each record; a name of the problem's stands for that."""
    assert done.out, done.err
    return [tuple(row[m] if m in row else row["problem"].get(m) for m in members) for row in done.document["records"]]


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
@pytest.mark.slow
@pytest.mark.ci
def test_each_kind_of_layer_is_a_row_with_its_number(fmha: Fmha, tiny: str) -> None:
    done = fmha("bench", "--model", tiny, "--phase", "both", "-s", "16", "-b", "1,2", *NULL, *QUICK, "--json")
    assert done.code == 0, done.err
    assert rows(done, "model", "phase", "layer_kind", "weight", "batch", "seqlen_q", "seqlen_k", "mask") == [
        (tiny, "prefill", "local", 6, 1, 16, 16, "window:3,0"),
        (tiny, "prefill", "global", 1, 1, 16, 16, "causal"),
        (tiny, "prefill", "local", 6, 2, 16, 16, "window:3,0"),
        (tiny, "prefill", "global", 1, 2, 16, 16, "causal"),
        (tiny, "decode", "local", 6, 1, 1, 16, "window:3,0"),
        (tiny, "decode", "global", 1, 1, 1, 16, "none"),
        (tiny, "decode", "local", 6, 2, 1, 16, "window:3,0"),
        (tiny, "decode", "global", 1, 2, 1, 16, "none"),
    ]
    assert {(r["verdict"], r["problem"]["scale"]) for r in done.document["records"]} == {("PASSED", 0.25)}
    assert list(validator("report").iter_errors(done.document)) == []
    medians = [r["measurement"]["median_ns"] for r in done.document["records"]]
    assert [(s["phase"], s["time_ns"], s["timed"], s["total"], s["complete"]) for s in done.document["sums"]] == [
        (phase, 6 * local + far, 7, 7, True)
        for phase, local, far in zip(
            ("prefill", "prefill", "decode", "decode"), medians[::2], medians[1::2], strict=True
        )
    ]


def test_the_table_names_the_layers_and_sums_them_up(fmha: Fmha, tiny: str) -> None:
    done = fmha("bench", "--model", tiny, "-s", "16", *NULL, *QUICK)
    assert done.code == 0, done.err
    assert "2 problems of ./config.json" in done.err
    assert "6 local" in done.out
    line = next(line for line in done.out.splitlines() if line.startswith(f"  {tiny} prefill b1 s16 hot: "))
    assert " in 7 layers (6 local " in line
    plain = fmha("bench", "-s", "16", "-d", "8", *NULL, *QUICK)
    assert "layers" not in plain.out
    assert fmha("run", "--model", tiny, "-s", "16", *NULL).out.count("in 7 layers") == 0  # a single launch says little


@pytest.mark.slow
@pytest.mark.ci
def test_several_backends_have_a_sum_each(fmha: Fmha, tiny: str) -> None:
    done = fmha("bench", "--model", tiny, "-s", "16", "--backend", "null,example", *QUICK, "--json")
    sums = done.document["sums"]
    assert [(one["backend"], one["timed"], one["complete"]) for one in sums] == [
        ("null", 7, True),
        ("example", 0, False),
    ]
    assert rows(done, "backend", "layer_kind") == [
        (name, kind) for kind in ("local", "global") for name in ("null", "example")
    ]
    table = fmha("bench", "--model", tiny, "-s", "16", "--backend", "null,example", *QUICK).out
    assert "example: incomplete: no time of 6 local (UNSUPPORTED), 1 global (UNSUPPORTED)" in table


@pytest.mark.slow
@pytest.mark.ci
def test_points_beyond_the_memory_are_rows_with_a_reason(
    fmha: Fmha, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "available_bytes", lambda: 1 << 30)
    done = fmha("bench", "--model", tiny, "-s", "16,16m", *NULL, *QUICK, "--json")
    assert done.code == 6, done.err
    assert rows(done, "seqlen_q", "layer_kind", "verdict") == [
        *((16, kind, "PASSED") for kind in ("local", "global")),
        *((16 << 20, kind, "OUT_OF_MEMORY") for kind in ("local", "global")),
    ]
    for record in done.document["records"][2:]:
        (reason,) = record["reasons"]
        assert reason["id"] == "M003"
        assert "GiB are needed, 1.00 GiB are available" in reason["text"]
    assert [one["complete"] for one in done.document["sums"]] == [True, False]
    table = fmha("bench", "--model", tiny, "-s", "16m", *NULL, *QUICK).out
    assert "incomplete: no time of 6 local (OUT_OF_MEMORY), 1 global (OUT_OF_MEMORY)" in table


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
def test_a_sum_with_a_part_of_its_times_says_so(fmha: Fmha, tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the local layers find no protocol."""
    free = iter([1, *[1 << 40] * 9])
    monkeypatch.setattr(protocol, "available_bytes", lambda: next(free))
    done = fmha("bench", "--model", tiny, "-s", "16", *NULL, *QUICK)
    assert done.code == 6, done.err
    assert " incomplete: " in done.out
    assert " in 1 of 7 layers (1 global " in done.out
    assert "; no time of 6 local (OUT_OF_MEMORY)" in done.out


@pytest.mark.promise("A row that does not fit into memory is refused before anything is allocated (M003).")
def test_a_device_without_the_memory_is_found_before_anything_is_allocated() -> None:
    problem, small = Problem.of(seqlen=1024), DeviceFacts(id="cuda:0", archs=("sm_90",), memory_bytes=1 << 20)
    plan = type("Plan", (), {"predicted_bytes": problem.bytes()})()
    with pytest.raises(MemoryError, match=r"are needed on cuda:0, which has 1\.00 MiB"):
        check_device(plan, small)
    for device in (
        DeviceFacts(id="cuda:0", archs=(), memory_bytes=1 << 30),
        DeviceFacts(id="cuda:0", archs=()),
        DeviceFacts(id="emu:gfx942", archs=(), memory_bytes=1),
    ):
        check_device(plan, device)


@pytest.mark.promise("Flags override a model's values, and what no flag can express is refused.")
@pytest.mark.parametrize(
    ("flags", "members"),
    [
        (("--heads", "8"), {"heads": 8, "kv_heads": 2}),
        (("--kv-heads", "1"), {"heads": 4, "kv_heads": 1}),
        (("-d", "16"), {"hdim": 16, "hdim_v": 16}),
        (("--causal",), {"mask": "causal"}),
        (("--window", "9"), {"mask": "window:9,0"}),
        (("--mask", "none"), {"mask": "none"}),
        (("--scale", "2"), {"scale": 2.0}),
        (("--softcap", "30"), {"softcap": 30.0}),
        (("--dtype", "bf16"), {"dtype": "bf16"}),
        (("--direction", "bwd"), {"direction": "bwd"}),
        (("--lse",), {"lse": True}),
        (("--tp", "2"), {"heads": 2, "kv_heads": 1}),
        (("--tp", "4"), {"heads": 1, "kv_heads": 1}),
        (("--tp", "2", "--heads", "6"), {"heads": 6, "kv_heads": 1}),
        (("--seqlens-q", "3,5"), {"batch": 2, "mode": "group"}),
    ],
)
def test_flags_beside_override_the_model(
    fmha: Fmha, tiny: str, flags: tuple[str, ...], members: dict[str, Any]
) -> None:
    sizes = () if "--seqlens-q" in flags else ("-s", "16")
    done = fmha(*DRY, "--model", f"{tiny}:local", *sizes, *flags)
    ((*found, kind, weight),) = rows(done, *members, "layer_kind", "weight")
    assert (dict(zip(members, found, strict=True)), kind, weight) == (members, "local", 6)


def test_other_flags_sweep_beside_a_model(fmha: Fmha, tiny: str) -> None:
    done = fmha(*DRY, "--model", tiny, "-s", "16", "--dtype", "fp16,bf16")
    assert rows(done, "dtype", "layer_kind") == [(t, kind) for t in ("fp16", "bf16") for kind in ("local", "global")]


@pytest.mark.promise("Flags override a model's values, and what no flag can express is refused.")
def test_a_flag_in_a_file_gives_way_to_a_model_and_a_size_does_not(fmha: Fmha, tiny: str, home: Path) -> None:
    (home / "work" / "fmha.toml").write_text('heads = 16\nmask = "none"\nhdim = 32\nseqlen = 8\n', "utf-8")
    done = fmha(*DRY, "--model", f"{tiny}:global")
    assert rows(done, "heads", "mask", "hdim", "seqlen_q") == [(4, "causal", 8, 8)]
    named = fmha(*DRY, "-s", "16", FMHA_MODEL=f"{tiny}:local {tiny}:global")
    assert rows(named, "layer_kind", "mask") == [("local", "window:3,0"), ("global", "causal")]


def test_impossible_points_are_dropped_and_the_others_stay_in_step(fmha: Fmha, tiny: str) -> None:
    line = (*DRY, "--model", tiny, "-s", "16", "--heads", "4,5")
    assert fmha(*line).code == 2
    done = fmha(*line, "--skip-impossible")
    assert rows(done, "heads", "layer_kind") == [(4, "local"), (4, "global")]
    assert "2 problems of ./config.json, dropped 2 impossible ones" in done.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--model", "gemma3-27"), 2, "did you mean gemma-3-27b?"),
        (("--model", "llama3.1-8b:local"), 2, "llama3.1-8b has 32 global layers"),
        (("--model", "gemma-3-27b", "--tp", "3"), 2, "error[P019]: --tp 3: gemma-3-27b has 32 heads"),
        (("--model", "gemma-3-27b", "--tp", "0"), 2, "--tp 0: at least 1"),
        (("--model", "gemma-3-27b", "--phase", "training"), 2, "--phase training: no such choice"),
        (("--phase", "decode"), 2, "--phase without --model"),
        (("--tp", "2"), 2, "--tp without --model"),
        (("--model", "gemma-3-27b", "--q", "q.npy"), 2, "--model and --q contradict each other"),
        (("--model", "./fmha.toml"), 2, "error[E060]"),
        (("--model", "."), 2, "error[E061]"),
    ],
)
def test_what_is_wrong_with_a_model_is_a_usage_error(fmha: Fmha, words: tuple[str, ...], code: int, said: str) -> None:
    done = fmha("run", *words, *NULL, "--dry-run")
    assert done.code == code
    assert said in done.err


def test_a_command_for_one_problem_says_how_to_narrow_a_model(fmha: Fmha, tiny: str) -> None:
    done = fmha("plan", "--model", tiny, "--phase", "both", *NULL)
    assert done.code == 2
    said = " ".join(done.err.split())
    for part in (
        "takes one problem",
        "the model has local and global layers",
        "--model NAME:local",
        "--phase prefill or",
    ):
        assert part in said
    one = fmha("plan", "--model", f"{tiny}:local", "-s", "16", *NULL, "--json")
    assert one.document["problem"]["mask"] == "window:3,0"


def test_explain_shows_what_each_kind_of_layer_would_get(fmha: Fmha, tiny: str) -> None:
    done = fmha("explain", "--model", tiny, "-s", "16", *NULL, "--json")
    assert done.code == 0, done.err
    assert list(validator("choices").iter_errors(done.document)) == []
    assert [(row["backend"], row["layer"]["kind"], row["layer"]["weight"]) for row in done.document["rows"]] == [
        ("null", "local", 6),
        ("null", "global", 1),
    ]
    assert "6 local" in fmha("explain", "--model", tiny, "-s", "16", *NULL).out
    single = fmha("explain", "--model", f"{tiny}:local", "-s", "16", *NULL, "--json").document
    assert single["schema"] == "fmha.explain/3"


def test_validate_keeps_the_layer_on_every_row(fmha: Fmha, tiny: str) -> None:
    done = fmha("validate", "--model", f"{tiny}:local", "-s", "8", *NULL, "--fill", "normal", "--json")
    assert done.code == 0, done.err
    assert rows(done, "lse", "layer_kind", "weight") == [(False, "local", 6), (True, "local", 6)]


def test_rows_of_other_layers_have_other_keys() -> None:
    """A resumed journal must not give the row of one model to another."""
    from fmha_cli.domain.layer import Layer, LayerKind, LayerPhase

    problem = Problem.of()
    layers = [
        None,
        Layer(model="a", kind=LayerKind.LOCAL, phase=LayerPhase.PREFILL, weight=2),
        Layer(model="b", kind=LayerKind.LOCAL, phase=LayerPhase.PREFILL, weight=2),
        Layer(model="a", kind=LayerKind.GLOBAL, phase=LayerPhase.PREFILL, weight=2),
        Layer(model="a", kind=LayerKind.LOCAL, phase=LayerPhase.DECODE, weight=2),
        Layer(model="a", kind=LayerKind.LOCAL, phase=LayerPhase.PREFILL, weight=3),
    ]
    keys = [Row(group=0, problem=problem, choice=None, plan=None, layer=layer).key for layer in layers]
    assert len(set(keys)) == len(layers)


@pytest.mark.promise("`--model` gives a row for each kind of layer, and the sum counts every layer or says it cannot.")
def test_models_lists_the_presets_and_shows_one_with_its_sources(fmha: Fmha, tiny: str) -> None:
    done = fmha("models", "--json")
    assert done.code == 0, done.err
    assert list(validator("models").iter_errors(done.document)) == []
    assert [row["name"] for row in done.document["models"]] == list(presets())
    table = fmha("models").out
    assert "52 local + 10 global" in table
    assert table.splitlines()[-1] == f"{len(presets())} models"
    shown = fmha("models", "gpt-oss-20b").out
    assert "openai/gpt-oss, gpt_oss/torch/model.py" in shown
    assert "12 local + 12 global layers" in shown
    assert "num_attention_heads" in fmha("models", tiny).out
    assert fmha("models", "gpt-oss-2b").code == 2
    (row,) = fmha("models", tiny, "--json").document["models"]
    assert row["facts"]["window"]["value"] == 4
    assert row["facts"]["window"]["source"].startswith("sliding_window")


def test_a_configuration_of_an_unknown_class_is_told(fmha: Fmha, home: Path) -> None:
    kinds = ["linear_attention"] * 6 + ["full_attention"]
    strange = {**TINY, "model_type": "newcomer", "layer_types": kinds, "architectures": ["NewForCausalLM"]}
    (home / "work" / "config.json").write_text(json.dumps(strange), "utf-8")
    done = fmha(*DRY, "--model", "./config.json", "-s", "16")
    assert "model_type newcomer is not in the table of transformers" in done.err
    assert "./config.json: 6 layers without softmax attention, which no row counts" in done.err
    assert rows(done, "layer_kind", "weight", "assumed") == [("global", 1, True)]
    assert "1 global, assumed" in fmha("run", "--model", "./config.json", "-s", "16", *NULL).out
    shown = fmha("models", "./config.json")
    assert "assumed, not known: model_type newcomer" in " ".join(shown.out.split())
    (row,) = fmha("models", "./config.json", "--json").document["models"]
    assert row["assumed"].startswith("model_type newcomer")


def test_a_known_class_is_not_assumed(fmha: Fmha, tiny: str) -> None:
    assert rows(fmha(*DRY, "--model", tiny, "-s", "16"), "assumed") == [(False,), (False,)]
    assert "assumed" not in fmha("run", "--model", tiny, "-s", "16", *NULL).out


def test_an_encoder_has_no_decoding_steps(fmha: Fmha, home: Path) -> None:
    (home / "work" / "config.json").write_text(json.dumps({"model_type": "bert"}), "utf-8")
    done = fmha(*DRY, "--model", "./config.json", "-s", "16")
    assert rows(done, "layer_kind", "weight", "mask") == [("global", 12, "none")]
    refused = fmha(*DRY, "--model", "./config.json", "-s", "16", "--phase", "decode")
    assert (refused.code, "error[E062]" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("gemma-3-2", ["gemma-3-27b", "gemma-3-27b:local", "gemma-3-27b:global"]),
        ("mixtral", ["mixtral-8x7b"]),
        ("gpt-oss-20b:", ["gpt-oss-20b:local", "gpt-oss-20b:global"]),
        ("nothing", []),
    ],
)
def test_presets_are_completed(begun: str, offered: Iterable[str]) -> None:
    complete = completer("models", (), False)
    assert complete is not None
    assert complete(begun) == offered
