"""The table of ``--model`` against the attention calls that the classes of transformers made: ``tests/golden/model_calls.json`` has a
configuration of each class with its recorded calls; the check ``model_table`` makes it. No package is needed.

The slow suite runs the classes again, with every configuration of ``tests/support/model_classes/samples.py``.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.discovery.model_config import Members, model_from, release, type_rows
from fmha_cli.domain.model import Model
from tests.checks.runner import Wanted, run

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "model_calls.json").read_text("utf-8"))
SEQLEN = GOLDEN["seqlen"]


def seen(window: int | None, causal: bool) -> list[int]:
    """The keys that each query of the prompt sees."""
    far = SEQLEN if window is None else window - 1
    return [min(row, far) + 1 + (0 if causal else min(SEQLEN - 1 - row, far)) for row in range(SEQLEN)]


def calls(model: Model) -> list[list[Any]]:
    """The calls of a model as the golden file has them."""
    counted: dict[str, list[Any]] = {}
    for call in (
        [
            *(one.heads, one.kv_heads, one.hdim, one.hdim_v),
            float(f"{one.scale if one.scale is not None else one.hdim**-0.5:.6g}"),
            *(one.softcap, one.sink_logits, one.alibi, seen(one.window, one.causal), one.count),
        ]
        for one in model.layers
    ):  # two kinds of layers may make the same calls in a prompt that is shorter than the window
        counted.setdefault(repr(call[:-1]), [*call[:-1], 0])[-1] += call[-1]
    return sorted(counted.values(), key=repr)


def of(kind: str, members: Mapping[str, Any], row: Any = None) -> Model:
    return model_from(Members(members, row or type_rows()[kind], kind), "m", "M")


def test_every_class_with_facts_has_a_recorded_configuration() -> None:
    read = {kind for kind, row in type_rows().items() if row.facts and kind != "*"}
    assert GOLDEN["release"] == release()
    assert set(GOLDEN["calls"]) == read
    assert len(read) >= 190


def test_the_table_gives_the_calls_that_each_class_made() -> None:
    wrong = {
        kind: (calls(of(kind, one["members"])), one["calls"])
        for kind, one in GOLDEN["calls"].items()
        if calls(of(kind, one["members"])) != sorted(one["calls"], key=repr)
    }
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "fact", "formula"),
    [
        ("gemma3n_text", "scale", "hdim ** -0.5"),
        ("mimo_v2_flash", "sink_logits", "False"),
        ("mimo_v2_flash", "hdim_v", "hdim"),
        ("llama", "layers", "num_hidden_layers + 1"),
        ("jamba", "attends", "True"),
        ("bloom", "alibi", "False"),
        ("vit", "causal", "True"),
        ("longcat_flash", "calls", "1"),
    ],
)
def test_a_wrong_fact_is_caught(kind: str, fact: str, formula: str) -> None:
    """A planted fault: one formula of the table is another."""
    row = type_rows()[kind]
    planted = replace(row, facts={**row.facts, fact: formula})
    one = GOLDEN["calls"][kind]
    assert calls(of(kind, one["members"])) == sorted(one["calls"], key=repr)
    assert calls(of(kind, one["members"], planted)) != sorted(one["calls"], key=repr)


@pytest.fixture
def table() -> Any:
    """The check ``model_table``, where the extra ``models`` is in the release that the table describes."""
    pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    if importlib.metadata.version("transformers") != release():
        pytest.skip(f"the table describes transformers {release()}")
    from tests.checks import model_table

    return model_table


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fact_that_is_edited_is_found(table: Any) -> None:
    """A planted fault: the class says otherwise, and the counts say that one differs."""
    recorded = {"qwen3": table.record("qwen3")}
    rows = dict(type_rows())
    said, wrong = table.checked(rows, recorded)
    assert not wrong
    assert "0 differ" in said
    rows["qwen3"] = replace(rows["qwen3"], facts={**rows["qwen3"].facts, "kv_heads": "num_attention_heads"})
    said, wrong = table.checked(rows, recorded)
    assert list(wrong) == ["qwen3"]
    assert "1 differ" in said


@pytest.mark.slow
@pytest.mark.timeout(10800)
def test_the_table_and_every_class_of_the_release_agree(
    table: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run(table.CHECK, Wanted(jobs=os.cpu_count() or 1), tmp_path / "journal.jsonl")
    with capsys.disabled():
        print(table.CHECK.summarise(outcome.rows))
    assert outcome.good, [row["differs"] for row in outcome.rows if row["differs"]]


def test_the_page_states_how_many_types_are_read() -> None:
    rows = [row for kind, row in type_rows().items() if kind != "*"]
    page = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text("utf-8")
    read = sum(bool(row.facts) or bool(row.text) for row in rows)
    assert f"{read} types are read, and {len(rows) - read} are refused" in " ".join(page.split())


@pytest.mark.slow
def test_what_no_flag_expresses_is_seen_in_scores_and_masks() -> None:
    """Planted faults of the recorder: a learned bias, slopes that are not the standard ones, and masks that are not a
    window.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    from tests.support.model_classes import hooks

    torch.manual_seed(0)
    heads, tokens, hdim = 4, 12, 16
    query, key = (torch.randn(1, heads, tokens, hdim, dtype=torch.float64) for _ in range(2))
    masked = torch.full((tokens, tokens), float("-inf"), dtype=torch.float64).triu(1)
    slopes = torch.from_numpy(hooks.standard_slopes(heads)).double()[:, None, None] * torch.arange(tokens)

    def call(more: Any) -> Any:
        with hooks.Watch() as watch:
            scores = query @ key.transpose(-1, -2)
            torch.softmax(scores * 0.25 + more + masked, -1) @ torch.randn(1, heads, tokens, 8, dtype=torch.float64)
        return hooks.calls_in(watch)[0]

    plain, sloped = call(0.0), call(slopes)
    assert (plain.heads, plain.kv_heads, plain.hdim, plain.hdim_v, plain.alibi) == (4, 4, 16, 8, False)
    assert (sloped.alibi, sloped.seen) == (True, tuple(range(1, tokens + 1)))
    assert plain.scale == pytest.approx(0.25) == sloped.scale
    for more in (torch.randn(heads, tokens, tokens), slopes / 2, 0.01 * torch.randn(heads, 1, tokens)):
        with pytest.raises(hooks.NotRecorded, match="more than the product"):
            call(more)

    band = torch.ones(1, 1, tokens, tokens, dtype=torch.bool)
    blocks = torch.block_diag(*[torch.ones(4, 4)] * 3).bool()[None, None]
    other = torch.cat([band, band.tril()], dim=1)
    assert (
        hooks.seen_by(band.tril().triu(-2))[0]
        == hooks.seen_by(band.tril(2).triu(-2))[0]
        == hooks.seen_by(band)[0]
        == ""
    )
    assert hooks.seen_by(blocks)[0] == hooks.seen_by(band.tril(3).triu(-1))[0] == "a mask that is no window"
    assert "other keys" in hooks.seen_by(other)[0]


@pytest.mark.slow
def test_what_no_flag_expresses_is_seen_in_the_arguments_of_an_attention_function() -> None:
    """Planted faults of the recorder: arguments that change scores, windows in the batch, biases, and a mask without values."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    from tests.support.model_classes import hooks, probe

    query, key = torch.randn(1, 4, 24, 16), torch.randn(1, 2, 24, 16)

    def call(mask: Any = None, batch: int = 1, **given: Any) -> Any:
        probe._calls.clear()
        probe._record(torch.nn.Identity(), query.repeat(batch, 1, 1, 1), key.repeat(batch, 1, 1, 1), key, mask, **given)
        return probe._calls[0]

    causal = torch.zeros(1, 1, 24, 24).masked_fill(torch.ones(24, 24).triu(1).bool(), float("-inf"))
    plain = call(causal, scaling=0.5, softcap=30.0, s_aux=torch.zeros(4), position_ids=None, output_attentions=True)
    assert (plain.heads, plain.kv_heads, plain.scale, plain.softcap, plain.sink_logits) == (4, 2, 0.5, 30.0, True)
    assert (plain.other, plain.seen) == ("", tuple(range(1, 25)))
    assert call(sliding_window=5).seen == tuple(min(row, 5) for row in range(1, 25))
    assert call(is_causal=False).seen == (24,) * 24
    assert call(position_bias=causal).other == "a bias of positions that is added to the scores"
    assert call(indices=causal).other.startswith("sparse attention")
    assert call(temperature=2.0).other == "the argument temperature of its attention"
    assert call(batch=2).other == "windows that are laid into the batch"
    assert call(causal + 0.1 * torch.randn(24, 24)).other == "a bias that is added to the scores"
    with pytest.raises(hooks.NotRecorded, match="without values"):
        call(causal.to("meta"))
