"""Small workload files after the schemas of the programs that write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fmha_cli.run.safetensors_files import safetensors_of
from fmha_cli.workloads.torch_trace import ARGUMENTS

SDPA = "aten::scaled_dot_product_attention"
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"


def operator(
    name: str = SDPA,
    q: Sequence[int] = (2, 4, 16, 8),
    k: Sequence[int] | None = None,
    v: Sequence[int] | None = None,
    *,
    kind: str = "float",
    start: float = 0.0,
    duration: float = 10.0,
    thread: int = 1,
    **values: Any,
) -> dict[str, Any]:
    """An event of an attention operator. ``values``: what its other arguments are: a text of ``Concrete Inputs``, or the shape of a tensor."""
    names = ARGUMENTS[name].split()
    shapes: dict[str, Sequence[int]] = {"query": q, "key": k or q, "value": v or k or q}
    shapes |= {key: value for key, value in values.items() if isinstance(value, tuple)}
    usual = {"dropout_p": "0.", "is_causal": "False", "enable_gqa": "False", "compute_log_sumexp": "False"}
    texts = {**usual, **{key: value for key, value in values.items() if isinstance(value, str)}}
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start,
        "dur": duration,
        "args": {
            "Input Dims": [list(shapes.get(one, ())) for one in names],
            "Input type": [kind if one in shapes else "Scalar" if one in texts else "" for one in names],
            "Concrete Inputs": ["" if one in shapes else texts.get(one, "") for one in names],
            "Input Strides": [[] for _ in names],
        },
    }


def trace(*events: Mapping[str, Any], **members: Any) -> bytes:
    """A Chrome trace of PyTorch's profiler."""
    head = {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", **members}
    return json.dumps(
        {**head, "traceEvents": [{"ph": "M", "name": "process_name", "ts": 0, "pid": 1}, *events]}, indent=1
    ).encode()


def _axes(**sizes: int | None) -> dict[str, Any]:
    return {name: {"type": "var"} if size is None else {"type": "const", "value": size} for name, size in sizes.items()}


def _input(*axes: str, dtype: str = "bfloat16", **more: Any) -> dict[str, Any]:
    return {"shape": list(axes) or None, "dtype": dtype, **more}


def definition(kind: str, **members: Any) -> dict[str, Any]:
    """A definition of FlashInfer-Bench: ``decode``, ``prefill`` (both paged), ``ragged`` or ``mla``."""
    head = ("num_qo_heads", "head_dim")
    cache = ("num_pages", "page_size", "num_kv_heads", "head_dim")
    lists = {"kv_indptr": _input("len_indptr", dtype="int32"), "kv_indices": _input("num_kv_indices", dtype="int32")}
    sizes: dict[str, int | None] = {"num_qo_heads": 32, "num_kv_heads": 8, "head_dim": 128, "page_size": 16}
    open_axes = dict.fromkeys(("batch_size", "total_q", "total_kv", "num_pages", "len_indptr", "num_kv_indices"))
    paged = {"k_cache": _input(*cache), "v_cache": _input(*cache), **lists}
    starts = {"qo_indptr": _input("len_indptr", dtype="int32")}
    packed = _input("total_kv", "num_kv_heads", "head_dim")
    latent = ("num_pages", "page_size")
    inputs: dict[str, Any] = {
        "decode": {"q": _input("batch_size", *head), **paged},
        "prefill": {"q": _input("total_q", *head), **paged, **starts},
        "ragged": {"q": _input("total_q", *head), "k": packed, "v": packed, "kv_indptr": lists["kv_indptr"], **starts},
        "mla": {
            "q_nope": _input("batch_size", "num_qo_heads", "head_dim_ckv"),
            "q_pe": _input("batch_size", "num_qo_heads", "head_dim_kpe"),
            "ckv_cache": _input(*latent, "head_dim_ckv"),
            "kpe_cache": _input(*latent, "head_dim_kpe"),
            **lists,
        },
    }[kind]
    sizes |= {"head_dim_ckv": 512, "head_dim_kpe": 64} if kind == "mla" else {}
    causal = "_causal" if kind in ("prefill", "ragged") else ""
    return {
        "name": f"gqa_{kind}{causal}_h32_kv8_d128",
        "op_type": {"ragged": "gqa_ragged", "mla": "mla_paged"}.get(kind, "gqa_paged"),
        "axes": _axes(**sizes, **open_axes),
        "inputs": {**inputs, "sm_scale": _input(dtype="float32", optional=True)},
        "outputs": {"output": _input("batch_size", *head), "lse": _input("batch_size", dtype="float32", optional=True)},
        "reference": "def run(): pass",
        **members,
    }


def dataset(root: Path, one: Mapping[str, Any], *workloads: Mapping[str, Any]) -> Path:
    """A dataset with a definition, and its file of workloads, which is returned. A list in ``inputs`` becomes a file of tensors."""
    name, lines = str(one["name"]), []
    for folder in ("definitions", "workloads", "blob"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "definitions" / f"{name}.json").write_text(json.dumps(one), "utf-8")
    for number, workload in enumerate(workloads):
        inputs = {}
        for key, value in workload["inputs"].items():
            if isinstance(value, list):
                blob = root / "blob" / f"{number}_{key}.safetensors"
                blob.write_bytes(safetensors_of({key: np.array(value, np.int32), "other": np.zeros(3, np.float32)}))
                value = {"type": "safetensors", "path": f"blob/{blob.name}", "tensor_key": key}
            inputs[key] = value
        uuid = workload.get("uuid", f"u{number}")
        line = {"definition": name, "workload": {"axes": workload["axes"], "inputs": inputs, "uuid": uuid}}
        lines.append(json.dumps({**line, "solution": None, "evaluation": None}))
    path = root / "workloads" / f"{name}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path
