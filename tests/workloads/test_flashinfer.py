"""Workloads of FlashInfer-Bench: sizes from the definition and the workload, lengths from files of tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmha_cli.domain.workload import WorkloadCall
from fmha_cli.run.safetensors_files import safetensors_of
from fmha_cli.workloads.flashinfer import integers_of
from fmha_cli.workloads.reading import read_workload
from tests.support.generators.workload_files import dataset, definition

pytestmark = pytest.mark.promise("What a workload's file does not say is a row with its reason, and the counts add up.")

DECODE = {
    "axes": {"batch_size": 2, "num_pages": 9, "len_indptr": 3, "num_kv_indices": 5},
    "inputs": {"kv_indptr": [0, 2, 5]},
}
PREFILL = {
    "axes": {"total_q": 7, "num_pages": 9, "len_indptr": 3, "num_kv_indices": 5},
    "inputs": {"qo_indptr": [0, 3, 7], "kv_indptr": [0, 2, 5]},
}
RAGGED = {
    "axes": {"total_q": 7, "total_kv": 12, "len_indptr": 3},
    "inputs": {"qo_indptr": [0, 3, 7], "kv_indptr": [0, 4, 12]},
}
CAUSAL = "Batched prefill (multi-token per seq, causal) with a paged KV cache."


def only(path: Path) -> WorkloadCall:
    (call,) = read_workload(path).calls
    return call


@pytest.mark.parametrize(
    ("kind", "workload", "said"),
    [
        ("decode", DECODE, "-b 2 -H 32 --kv-heads 8 -s 1 --dtype bf16 --layout bshd --kv-cache paged:16 --cache-seqlens 32,48"),
        ("prefill", PREFILL, "-H 32 --kv-heads 8 --seqlens-q 3,4 --dtype bf16 --causal --layout bshd --kv-cache paged:16 "
         "--cache-seqlens 32,48"),
        ("ragged", RAGGED, "-H 32 --kv-heads 8 --seqlens-q 3,4 --seqlens-k 4,8 --dtype bf16 --causal --layout bshd"),
        ("mla", DECODE, "-b 2 -H 32 --kv-heads 1 -s 1 -d 576 --mla-rope 64 --dtype bf16 --layout bshd --kv-cache paged:16 "
         "--cache-seqlens 32,48"),
    ],
)  # fmt: skip
def test_a_workload_is_a_problem(tmp_path: Path, kind: str, workload: dict[str, Any], said: str) -> None:
    call = only(dataset(tmp_path, definition(kind), workload))
    assert call.problem is not None, call.reason
    assert call.problem.repro().split() == said.split()


def changed(workload: dict[str, Any], **inputs: Any) -> dict[str, Any]:
    return {"axes": workload["axes"], "inputs": {**workload["inputs"], **inputs}}


def test_scale_and_last_pages_and_lse(tmp_path: Path) -> None:
    one = definition("decode")
    one["inputs"]["kv_last_page_len"] = {"shape": ["batch_size"], "dtype": "int32"}
    one["outputs"]["lse"] = {"shape": ["batch_size"], "dtype": "float32"}
    call = only(
        dataset(tmp_path, one, changed(DECODE, sm_scale={"type": "scalar", "value": 0.25}, kv_last_page_len=[3, 16]))
    )
    assert call.problem is not None
    assert (call.problem.cache_seqlens, call.problem.scale, call.problem.lse) == ((19, 48), 0.25, True)


def test_a_single_sequence_needs_no_offsets(tmp_path: Path) -> None:
    axes = {"batch_size": 1, "num_pages": 9, "len_indptr": 2, "num_kv_indices": 5}
    call = only(dataset(tmp_path, definition("decode"), {"axes": axes, "inputs": {"kv_indptr": {"type": "random"}}}))
    assert call.problem is not None
    assert call.problem.cache_seqlens == (80,)


@pytest.mark.parametrize(
    ("description", "mapped"),
    [(CAUSAL, True), ("Causal attention", True), ("non-causal prefill", False), ("an optional causal mask", False), ("prefill", False)],
)  # fmt: skip
def test_the_mask_is_what_the_definition_says(tmp_path: Path, description: str, mapped: bool) -> None:
    call = only(dataset(tmp_path, definition("ragged", name="gqa_ragged", description=description), RAGGED))
    assert (call.problem is not None) is mapped
    assert mapped or (call.reason is not None and call.reason.id == "W002")


def without(kind: str, name: str) -> dict[str, Any]:
    one = definition(kind)
    return {**one, "inputs": {key: value for key, value in one["inputs"].items() if key != name}}


def with_input(kind: str, **inputs: Any) -> dict[str, Any]:
    one = definition(kind)
    return {**one, "inputs": {**one["inputs"], **inputs}}


@pytest.mark.parametrize(
    ("one", "workload", "id", "said"),
    [
        (definition("decode"), {"axes": {"batch_size": 2}, "inputs": {}}, "W001", "len_indptr, num_kv_indices, num_pages"),
        (definition("decode"), changed(DECODE, kv_indptr={"type": "random"}), "W001", "its 2 sequences"),
        (definition("decode"), changed(DECODE, kv_indptr=[0, 2, 4]), "W004", "does not divide 5 rows"),
        (definition("decode"), changed(DECODE, kv_indptr=[0, 6, 5]), "W004", "does not divide"),
        (definition("decode"), changed(DECODE, kv_indptr=[0, 5]), "W004", "does not divide"),
        (definition("decode"), changed(DECODE, kv_indptr={"type": "safetensors", "path": "no.safetensors", "tensor_key": "x"}),
         "W001", "No such file"),
        (definition("decode"), changed(DECODE, sm_scale={"type": "random"}), "W002", "sm_scale"),
        (definition("decode", op_type="gemm"), DECODE, "W003", "op_type gemm"),
        (without("decode", "kv_indices"), DECODE, "W003", "lacks the input kv_indices"),
        (with_input("decode", sinks={"shape": ["num_qo_heads"], "dtype": "float32"}), DECODE, "W003", "sinks"),
        (with_input("decode", sinks={"shape": None, "dtype": "float32", "optional": True}),
         changed(DECODE, sinks={"type": "scalar", "value": 1}), "W003", "sinks"),
        (with_input("decode", q={"shape": ["batch_size", "num_qo_heads", "head_dim"], "dtype": "float8_e4m3fn"}), DECODE, "W003",
         "element types"),
        (with_input("decode", q={"shape": ["batch_size", "head_dim"], "dtype": "bfloat16"}), DECODE, "W003", "has the axes"),
        (with_input("decode", q={"shape": ["batch_size", "num_qo_heads", "page_size"], "dtype": "bfloat16"}), DECODE, "W004", "shapes"),
        (with_input("decode", kv_last_page_len={"shape": ["batch_size"], "dtype": "int32"}), DECODE, "W001", "kv_last_page_len"),
        (definition("decode", axes={**definition("decode")["axes"], "num_kv_heads": {"type": "const", "value": 5}}), DECODE, "W004",
         "kv_heads=5"),
    ],
)  # fmt: skip
def test_what_is_not_said_is_a_reason(
    tmp_path: Path, one: dict[str, Any], workload: dict[str, Any], id: str, said: str
) -> None:
    call = only(dataset(tmp_path, one, workload))
    assert call.problem is None
    assert call.reason is not None
    assert (call.reason.id, said in call.reason.text) == (id, True), call.reason


def test_each_workload_counts_once_whatever_was_evaluated(tmp_path: Path) -> None:
    path = dataset(tmp_path, definition("decode"), DECODE, changed(DECODE, kv_indptr=[0, 1, 5]), DECODE)
    lines = path.read_text("utf-8").splitlines()
    evaluated = [json.dumps({**json.loads(lines[0]), "solution": name, "evaluation": {}}) for name in ("a", "b")]
    path.write_text("\n".join([*lines, *evaluated]), "utf-8")
    found = read_workload(path)
    assert ([call.count for call in found.calls], found.total, found.refused) == ([2, 1], 3, 0)


def test_a_missing_definition_and_a_damaged_one_are_reasons(tmp_path: Path) -> None:
    path = dataset(tmp_path, definition("decode"), DECODE)
    (kept,) = (tmp_path / "definitions").iterdir()
    kept.write_text("{", "utf-8")
    assert "cannot be read" in str(only(path).reason)
    kept.unlink()
    assert "is not there" in str(only(path).reason)


def test_a_trace_dump_has_no_lengths(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(definition("decode"), indent=2), "utf-8")
    call = only(path)
    assert call.problem is None
    assert call.reason is not None
    assert (call.reason.id, call.reason.hint) == ("W001", "a workload of FlashInfer-Bench has them")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        b"\x08\0\0\0\0\0\0\0[1, 2 ]]",
        safetensors_of({"x": np.zeros((2, 2), np.int32)}),
        safetensors_of({"x": np.zeros(3, np.float32)}),
        safetensors_of({"y": np.zeros(3, np.int32)}),
        safetensors_of({"x": np.arange(9, dtype=np.int32)})[:-1],
        safetensors_of({"x": np.arange(9, dtype=np.int32)}).replace(b"[9]", b"[8]"),
        safetensors_of({"x": np.arange(9, dtype=np.int32)}).replace(b"[9]", b"[x]"),
    ],
)
def test_a_damaged_file_of_lengths_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(ValueError):
        integers_of(path, "x")


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_lengths_of_each_type_of_integers(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors_of({"a": np.ones(3, np.float32), "x": np.array([0, 7, 2**31 - 1], kind)}))
    assert integers_of(path, "x") == [0, 7, 2**31 - 1]
