"""The presets of ``--model``: golden shapes written by hand, sources, names, sizes, and planted faults that must be caught."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmha_cli.discovery.models import FILE, SIZES, completed, phases_of, presets, presets_of, wanted_model
from fmha_cli.discovery.sweep import expand
from fmha_cli.domain.arch import arch_root
from fmha_cli.domain.errors import InternalError, UsageError
from fmha_cli.domain.layer import LayerPhase
from fmha_cli.domain.model import Layers, Model
from fmha_cli.domain.problem import Problem

DOCUMENT = json.loads(arch_root().joinpath(FILE).read_text("utf-8"))

GOLDEN = """
llama3-8b        32/8    128      causal x32
llama3-70b       64/8    128      causal x80
llama3.1-8b      32/8    128      causal x32
llama3.1-70b     64/8    128      causal x80
llama3.1-405b    128/8   128      causal x126
llama3.2-3b      24/8    128      causal x28
qwen2.5-1.5b     12/2     128      causal x28
qwen2.5-3b       16/2    128      causal x36
qwen2.5-7b       28/4    128      causal x28
qwen2.5-14b      40/8    128      causal x48
qwen2.5-32b      40/8    128      causal x64
qwen3-0.6b       16/8     128      causal x28
qwen3-1.7b       16/8     128      causal x28
qwen3-4b         32/8    128      causal x36
qwen3-8b         32/8    128      causal x36
qwen3-14b        40/8    128      causal x40
qwen3-32b        64/8    128      causal x64
qwen3-30b-a3b    32/4    128      causal x48
qwen3-235b-a22b  64/4     128      causal x94
gemma-2-2b       8/4     256      window:4095,0 x13, causal x13                cap 50
gemma-2-9b       16/8    256      window:4095,0 x21, causal x21                cap 50
gemma-2-27b      32/16   128      window:4095,0 x23, causal x23                cap 50, scale 1/12
gemma-3-1b       4/1     256      window:511,0 x22, causal x4
gemma-3-4b       8/4     256      window:1023,0 x29, causal x5
gemma-3-12b      16/8    256      window:1023,0 x40, causal x8
gemma-3-27b      32/16   128      window:1023,0 x52, causal x10                scale 0.07715167498104596
gemma-4-26b-a4b  16/8    256      window:1023,0 x25, causal of 16/2 512 x5     scale 1
gemma-4-31b      32/16   256      window:1023,0 x50, causal of 32/4 512 x10    scale 1
gpt-oss-20b      64/8    64       window:127,0 x12, causal x12                 sinks
gpt-oss-120b     64/8    64       window:127,0 x18, causal x18                 sinks
deepseek-v2-lite 16/16   192/128  causal x27                                   scale 0.1147213867929261
deepseek-v3      128/128 192/128  causal x61                                   scale 0.1352337788608801
mistral-7b-v0.1  32/8    128      window:4095,0 x32
mixtral-8x7b     32/8    128      causal x32
phi-3-mini-4k    32/32   96       window:2046,0 x32
bert-base        12/12    64       none x12
vit-base         12/12    64       none x12
"""
"""Each preset in prefill: heads, head dims, the mask of each kind of layer and the number of such layers, and the scores."""


def told(made: Mapping[str, Model]) -> Iterator[str]:
    """The presets as ``GOLDEN`` writes them."""
    for name, model in made.items():
        first, *others = [(one, prefill(model, one)) for one in model.layers]
        kinds = [f"{first[1].mask.text()} x{first[0].count}"]
        for one, problem in others:
            own = "" if shape(problem) == shape(first[1]) else f" of {shape(problem)}"
            kinds.append(f"{problem.mask.text()}{own} x{one.count}")
        yield f"{name} {shape(first[1])} {', '.join(kinds)} {scores(first[1])}"


def shape(problem: Problem) -> str:
    dims = f"{problem.hdim}" if problem.hdim == problem.hdim_v else f"{problem.hdim}/{problem.hdim_v}"
    return f"{problem.heads}/{problem.kv_heads} {dims}"


def scores(problem: Problem) -> str:
    parts = [f"cap {problem.softcap:g}"] if problem.softcap else []
    usual = abs(problem.scale - problem.hdim**-0.5) < 1e-12
    known = "1/12" if abs(problem.scale - 1 / 12) < 1e-12 else f"{problem.scale:.16g}"
    parts += [] if usual else [f"scale {known}"]
    return ", ".join(parts + (["sinks"] if problem.sink_logits else []))


def prefill(model: Model, layers: Layers, **flags: Any) -> Problem:
    return Problem.of(**{**model.flags(layers, LayerPhase.PREFILL), "seqlen": 64, **flags})


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def wrong(document: Mapping[str, Any]) -> list[str]:
    """The presets of a document that are not the golden ones."""
    return [line.partition(" ")[0] for line in map(str.strip, told(presets_of(document))) if line not in lines(GOLDEN)]


def test_the_presets_are_the_golden_ones() -> None:
    assert [line.strip() for line in told(presets())] == lines(GOLDEN)


@pytest.mark.parametrize(
    ("name", "fact", "value"),
    [
        ("gemma-3-27b", "window", 1023),  # a window that does not count the query's own key
        ("qwen3-32b", "hdim", 80),  # hidden_size / heads, where the model states its head dim
        ("gemma-2-27b", "scale", 128**-0.5),
        ("gpt-oss-20b", "sink_logits", False),
        ("gemma-3-1b", "local_layers", 21),
        ("llama3.1-8b", "kv_heads", 32),
    ],
)
def test_a_planted_fault_in_a_preset_is_caught(name: str, fact: str, value: Any) -> None:
    assert wrong(DOCUMENT) == []
    planted = copy.deepcopy(DOCUMENT)
    planted["models"][name]["facts"][fact]["value"] = value
    assert wrong(planted) == [name]


@pytest.mark.promise("A window of W keys includes the query's own.")
def test_an_off_by_one_in_the_mask_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Model.flags

    def planted(
        self: Model, layers: Layers, phase: LayerPhase, tp: int = 1, *, one_query: bool = False
    ) -> dict[str, Any]:
        flags = honest(self, layers, phase, tp, one_query=one_query)
        return flags if layers.window is None else {**flags, "mask": f"window:{layers.window},0"}

    monkeypatch.setattr(Model, "flags", planted)
    assert wrong(DOCUMENT) == [name for name, model in presets().items() if model.layers[0].window]


@pytest.mark.sampled(12, ci="all")
@pytest.mark.parametrize("phase", LayerPhase)
@pytest.mark.parametrize("name", presets())
def test_a_preset_is_valid_problems(name: str, phase: LayerPhase) -> None:
    """The sweep that no flag narrows, for every number of devices that divides the heads."""
    model = presets()[name]
    if phase is LayerPhase.DECODE and not model.causal:
        with pytest.raises(UsageError, match="is not a decoder"):
            completed({}, model, model.layers[0], phase, 1, frozenset())
        return
    for tp in (1, 2, 4):
        for one in model.layers:
            problems = problems_of(completed({}, model, one, phase, tp, frozenset()))
            assert len(problems) == (6 if phase is LayerPhase.PREFILL else 12)
            for problem in problems:
                assert problem.heads == one.heads // tp
                assert Problem.from_cli(problem.repro()) == problem
                assert (problem.seqlen_q == 1) is (phase is LayerPhase.DECODE)


def test_every_value_has_a_source() -> None:
    for preset in DOCUMENT["models"].values():
        assert preset["title"]
        for fact in preset["facts"].values():
            assert set(fact) == {"value", "source"}
            assert len(fact["source"]) > 20


@pytest.mark.parametrize(
    "damage",
    [
        lambda preset: preset["facts"].pop("heads"),
        lambda preset: preset["facts"]["heads"].pop("source"),
        lambda preset: preset["facts"]["heads"].update(source=""),
        lambda preset: preset["facts"]["heads"].update(value="32"),
        lambda preset: preset.pop("facts"),
        lambda preset: preset.pop("title"),
    ],
)
def test_a_damaged_preset_is_an_internal_error(damage: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    damage(document["models"]["gemma-3-27b"])
    with pytest.raises(InternalError, match="gemma-3-27b"):
        presets_of(document)


@pytest.mark.parametrize(
    ("text", "name", "kinds"),
    [
        ("gemma-3-27b", "gemma-3-27b", ["local", "global"]),
        ("gemma-3-27b:all", "gemma-3-27b", ["local", "global"]),
        ("gemma-3-27b:local", "gemma-3-27b", ["local"]),
        ("gemma-3-27b:global", "gemma-3-27b", ["global"]),
        ("mistral-7b-v0.1:local", "mistral-7b-v0.1", ["local"]),
        ("llama3.1-8b:global", "llama3.1-8b", ["global"]),
    ],
)
def test_a_name_and_its_layers(text: str, name: str, kinds: list[str]) -> None:
    wanted = wanted_model(text)
    assert (wanted.model.name, [one.kind for one in wanted.layers]) == (name, kinds)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("gemma3-27", "E060", "did you mean gemma-3-27b?"),
        ("google/gemma-3-27b-it", "E060", "did you mean gemma-3-27b?"),
        ("GPT-OSS", "E060", "gpt-oss-20b or gpt-oss-120b"),
        ("deepseek-r1", "E060", "deepseek-v3"),
        ("nothing-like-it", "E060", "`fmha models` lists"),
        ("nowhere/config.json", "E060", "./config.json"),
        ("gemma-3-27b:locl", "E060", "did you mean gemma-3-27b?"),
        ("llama3.1-8b:local", "E062", "llama3.1-8b has 32 global layers"),
        ("mistral-7b-v0.1:global", "E062", "mistral-7b-v0.1 has 32 local layers"),
    ],
)
def test_a_name_that_does_not_exist(text: str, code: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        wanted_model(text)
    assert caught.value.code == code
    assert said in f"{caught.value.why} {caught.value.help}"


def test_a_file_beside_the_presets_does_not_hide_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gemma-3-27b").mkdir()
    assert wanted_model("gemma-3-27b").model is presets()["gemma-3-27b"]


def problems_of(flags: dict[str, Any]) -> list[Problem]:
    return [Problem.from_raw(raw) for raw in expand(flags).points()]


def lengths(phase: LayerPhase, **flags: str) -> set[tuple[int, int]]:
    model = presets()["llama3.1-8b"]
    problems = problems_of(completed(flags, model, model.layers[0], phase, 1, frozenset()))
    return {(problem.seqlen_q, problem.seqlen_k) for problem in problems}


def test_sizes_that_no_flag_gives() -> None:
    assert sorted(lengths(LayerPhase.PREFILL)) == [(n * 1024, n * 1024) for n in (1, 2, 4, 8, 16, 32)]
    assert sorted(lengths(LayerPhase.DECODE)) == [(1, n * 1024) for n in (1, 8, 32)]
    assert SIZES[LayerPhase.DECODE]["batch"] == "1,8,32,128"


@pytest.mark.parametrize("flag", ["seqlen", "seqlen_k"])
def test_a_length_given_alone_is_that_of_the_context_in_both_phases(flag: str) -> None:
    assert lengths(LayerPhase.PREFILL, **{flag: "512,2k"}) == {(512, 512), (2048, 2048)}
    assert lengths(LayerPhase.DECODE, **{flag: "512,2k"}) == {(1, 512), (1, 2048)}


@pytest.mark.parametrize("phase", LayerPhase)
def test_two_lengths_are_queries_and_keys(phase: LayerPhase) -> None:
    assert lengths(phase, seqlen="4", seqlen_k="64") == {(4, 64)}


def test_several_queries_for_each_sequence_are_causal() -> None:
    model = presets()["llama3.1-8b"]
    given = {"seqlen": "4", "seqlen_k": "64"}
    flags = completed(given, model, model.layers[0], LayerPhase.DECODE, 1, frozenset())
    (problem,) = problems_of({**flags, "batch": "1"})
    assert problem.mask.text() == "causal"


def test_one_query_for_each_sequence_is_not() -> None:
    model = presets()["llama3.1-8b"]
    given = {"seqlen": "1", "seqlen_k": "64", "batch": "1"}
    (problem,) = problems_of(completed(given, model, model.layers[0], LayerPhase.DECODE, 1, frozenset()))
    assert problem.mask.text() == "none"


def test_a_cache_gives_the_keys_of_a_decoding_step() -> None:
    assert lengths(LayerPhase.DECODE, kv_cache="paged:16", cache_seqlens="100") == {(1, 100)}
    assert lengths(LayerPhase.DECODE, kv_cache="paged:16", seqlen="100") == {(1, 100)}
    assert lengths(LayerPhase.DECODE, kv_cache="linear", append="1") == {(1, 1024), (1, 8192), (1, 32768)}


@given(st.fixed_dictionaries({}, optional={"heads": st.just("6"), "hdim": st.just("32"), "scale": st.just("0.5")}))
def test_a_flag_that_is_given_overrides_the_model(flags: dict[str, str]) -> None:
    model = presets()["gemma-3-27b"]
    own = completed({}, model, model.layers[0], LayerPhase.PREFILL, 1, frozenset())
    assert completed(flags, model, model.layers[0], LayerPhase.PREFILL, 1, frozenset()) == {**own, **flags}


def test_what_a_given_flag_excludes_is_dropped() -> None:
    model = presets()["gemma-3-27b"]
    left = completed({"causal": True}, model, model.layers[0], LayerPhase.PREFILL, 1, frozenset({"mask", "window"}))
    assert "mask" not in left
    assert left["causal"] is True


def test_the_phases() -> None:
    assert [phases_of(text) for text in (None, "prefill", "decode")] == [
        (LayerPhase.PREFILL,),
        (LayerPhase.PREFILL,),
        (LayerPhase.DECODE,),
    ]
    assert phases_of("both") == (LayerPhase.PREFILL, LayerPhase.DECODE)
