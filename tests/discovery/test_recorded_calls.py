"""The table of ``--model`` against the attention calls that the classes of transformers made: ``tests/golden/model_calls.json`` has a
configuration of each class with its recorded calls; ``benchmarks/model_check.py --golden`` makes it. No package is needed.

The slow suite runs the classes anew, with every configuration of ``benchmarks/model_samples.py``.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.discovery.model_config import model_from
from fmha_cli.discovery.model_types import Members, release, type_rows
from fmha_cli.domain.model import Model

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
        ("bert", "causal", "True"),
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


@pytest.mark.slow
@pytest.mark.timeout(10800)
def test_the_table_and_every_class_of_the_release_agree(capsys: pytest.CaptureFixture[str]) -> None:
    """Needs the extra ``models``, in the release that the table describes."""
    pytest.importorskip("torch", reason="torch is not installed (extra: models)")
    pytest.importorskip("transformers", reason="transformers is not installed (extra: models)")
    if importlib.metadata.version("transformers") != release():
        pytest.skip(f"the table describes transformers {release()}")
    import model_check

    counted, wrong = model_check.compared()
    with capsys.disabled():
        print(counted)
    assert not wrong
    assert counted["classes with facts"] == len(GOLDEN["calls"])
