"""Libraries that people pass to ``--backend`` and that are not backends here: the answers about them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fmha_cli.backends.builtins import BUILTINS
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.arch import arch_document
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.spoken import ELSEWHERE, ELSEWHERE_SCHEMA, FILE, SCHEMA, letters
from fmha_cli.domain.suggest import NameKind, near_names, suggest

ROWS: list[dict[str, Any]] = arch_document(ELSEWHERE, ELSEWHERE_SCHEMA)["libraries"]
PLUGINS = Path(__file__).parents[2] / "plugins"
SAID = [(said, row) for row in ROWS for said in row["said"]]
ASKED = {
    **dict.fromkeys(("flash_attention_3", "FA3", "fa3"), "did you mean flash_attn_3?"),
    **dict.fromkeys(("fa4", "FA4"), "FlashAttention-4 is not served: flash_attn is FlashAttention-2"),
    "flashinfer": "FlashInfer is not served",
    "tensorrt": "TensorRT is not served: its attention kernels are closed",
    "xformers": "did you mean mem_efficient (the kernels of xformers)?",
    **dict.fromkeys(("torch", "pytorch", "sdpa"), "pip install ./plugins/fmha-torch torch"),
    "openvino": "pip install ./plugins/fmha-openvino openvino",
    "onnxruntime": "pip install ./plugins/fmha-onnxruntime onnxruntime",
    "pallas": "pip install ./plugins/fmha-jax jax",
    "llama.cpp": "pip install ./plugins/fmha-ggml xllamacpp",
    "mlx": "pip install ./plugins/fmha-mlx mlx mlx-cpu",
    "metal": "Metal is not served: fmha has no backend for Apple GPUs",
    "triton": "pip install ./plugins/fmha-triton triton",
}


@pytest.mark.parametrize("name", ASKED)
def test_the_answer_about_a_library(name: str) -> None:
    assert ASKED[name] in suggest(name, BUILTINS, NameKind.BACKEND)


def test_a_backend_that_exists_is_not_in_the_file() -> None:
    """A library that becomes a built-in backend leaves the file; else a spelling of its name would be refused."""
    assert {letters(said) for said, _ in SAID} & set(map(letters, BUILTINS)) == set()


def test_every_name_stands_once_in_both_files_and_every_row_has_a_source() -> None:
    other = [letters(name) for row in arch_document(FILE, SCHEMA)["names"]["backend"] for name in row["said"]]
    said = [letters(name) for name, _ in SAID]
    assert len(set(said)) == len(said), "twice"
    assert set(said) & set(other) == set()
    for row in ROWS:
        assert row["source"].strip()
        assert set(row.get("nearest", ())) <= set(BUILTINS)
        assert ("plugin" in row) + ("nearest" in row) == 1
        assert row["why"] is None or not row["why"].endswith(".")


@pytest.mark.parametrize("row", [row for row in ROWS if "plugin" in row], ids=lambda row: row["title"])
def test_a_plugin_that_is_named_is_in_this_repository_and_brings_the_backend(row: dict[str, Any]) -> None:
    name, packages = row["plugin"]["backend"], row["plugin"]["packages"]
    project = tomllib.loads((PLUGINS / f"fmha-{name}" / "pyproject.toml").read_text())
    assert name in project["project"]["entry-points"]["fmha"]
    optional = [text for texts in project["project"]["optional-dependencies"].values() for text in texts]
    assert {re.split(r"[<>=]", text)[0] for text in optional} >= set(packages)


def test_an_installed_plugin_is_meant_by_every_name_of_its_library() -> None:
    known = (*BUILTINS, "torch")
    assert suggest("pytorch", known, NameKind.BACKEND) == "did you mean torch?"
    assert suggest("sdpa", known, NameKind.BACKEND) == "did you mean torch?"
    assert near_names("fa4", BUILTINS, NameKind.BACKEND) == ()


def test_the_command_line_says_it() -> None:
    with pytest.raises(UsageError) as caught:
        build_registry().backend("fa4")
    assert caught.value.code == "E004"
    assert caught.value.help is not None
    assert caught.value.help.endswith("nearest: flash_attn")
