"""FlashInfer-Bench's workloads with their definitions, and the definitions that FlashInfer's trace dump writes.

A definition names the axes of a kernel's tensors and the sizes of those for which it is compiled; a workload has the other sizes, and the
lengths of the sequences in files of tensors. A trace dump has definitions alone, so no lengths.

Source: flashinfer-ai/flashinfer-bench at 40e6ca78, ``flashinfer_bench/data/definition.py``, ``workload.py`` and ``trace.py``,
``docs/op-types/*.mdx``; flashinfer-ai/flashinfer 0.6.18 at fb28d724, ``flashinfer/trace/template.py`` ``build_fi_trace_fn``,
``trace/templates/attention.py``. Causal masks are aligned bottom-right there (``_gqa_paged_prefill_reference``).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.reading import parsed, regular_bytes
from fmha_cli.domain.regular import open_regular
from fmha_cli.domain.workload import NO_FLAGS, NO_MEANING, NO_PROBLEM, NO_SIZES, WorkloadCall
from fmha_cli.workloads.mapping import UnmappedCall, described, one_type

_TYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_LENGTHS = ("qo_indptr", "kv_indptr", "kv_last_page_len")
_READ: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gqa_ragged": (("q", "k", "v"), ("kv_indptr",)),
    "gqa_paged": (("q", "k_cache", "v_cache"), ("kv_indptr", "kv_indices")),
    "mla_paged": (("q_nope", "q_pe", "ckv_cache", "kpe_cache"), ("kv_indptr", "kv_indices")),
}
"""Kind of operator -> its tensors of one element type, and the inputs that it always has."""
_MORE = ("sm_scale", "return_lse", *_LENGTHS)
"""Inputs that it may have."""
_CAUSAL = re.compile(r"(?<!non-)(?<!non)(?<!not )(?<!optional )(?<!optionally )\bcausal\b", re.IGNORECASE)
_INTEGERS = {"I32": "<i", "I64": "<q"}
_HEADER, _MOST = 100_000_000, 1 << 24
"""Bytes of the longest header that the format allows; the longest list."""
_UP = 4
"""Folders above the file of a workload where ``definitions`` may be."""


@dataclass(frozen=True)
class KernelDefinition:
    """A definition, as its file has it."""

    data: Mapping[str, Any]

    def member(self, name: str) -> Mapping[str, Any]:
        """``axes``, ``inputs`` or ``outputs``; empty if it is none."""
        found = self.data.get(name)
        return found if isinstance(found, dict) and all(isinstance(one, dict) for one in found.values()) else {}

    @property
    def name(self) -> str:
        return str(self.data.get("name"))

    def sizes(self, more: Mapping[str, Any]) -> dict[str, int]:
        """Axis -> size: those of the definition, and those of a workload."""
        own = {name: axis.get("value") for name, axis in self.member("axes").items() if axis.get("type") == "const"}
        return {name: size for name, size in {**more, **own}.items() if type(size) is int}


@dataclass(frozen=True)
class DatasetFolder:
    """Where the definitions of a workload's file are, and its files of tensors."""

    file: Path
    found: dict[str, KernelDefinition] = field(default_factory=dict)

    @cached_property
    def root(self) -> Path:
        """The nearest folder above that holds ``definitions``; the file's own folder if none does."""
        above = self.file.absolute().parents[: _UP + 1]
        return next((folder for folder in above if (folder / "definitions").is_dir()), above[0])

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        files = [*self.file.absolute().parent.glob("*.json"), *(self.root / "definitions").rglob("*.json")]
        return {path.stem: path for path in files}

    def definition(self, name: str) -> KernelDefinition:
        """Raises UnmappedCall: there is none, or it is damaged."""
        if name not in self.found:
            path = self._files.get(name)
            if path is None:
                hint = "keep the file in the folder `workloads` of a dataset, beside `definitions`"
                raise UnmappedCall(NO_SIZES(f"the definition {name} is not there", hint))
            try:
                data = parsed(regular_bytes(path))
            except (OSError, DecodeError) as fault:
                raise UnmappedCall(NO_SIZES(f"the definition {path} cannot be read: {fault}")) from fault
            self.found[name] = KernelDefinition(data if isinstance(data, dict) else {})
        return self.found[name]

    def numbers(self, source: Any, name: str) -> list[int] | None:
        """The integers of an input that is a file of tensors; None if it is generated, so that they are not known.

        Raises:
            UnmappedCall: the file cannot be read, or holds something else.
        """
        if not isinstance(source, dict) or source.get("type") != "safetensors":
            return None
        path = self.root / str(source.get("path"))
        try:
            return integers_of(path, str(source.get("tensor_key")))
        except (OSError, ValueError) as fault:
            why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
            raise UnmappedCall(NO_SIZES(f"{name} cannot be read from {path}: {why}")) from fault


def integers_of(path: Path, key: str) -> list[int]:
    """A list of integers in a ``.safetensors`` file. What reads tensors of all kinds needs NumPy, so commands would start later.

    Source: https://github.com/huggingface/safetensors#format.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged, or has no such list.
    """
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _HEADER:
            raise ValueError("no .safetensors")
        entry = _member(parsed(file.read(length)), key)
        kind, shape, offsets = (_member(entry, name) for name in ("dtype", "shape", "data_offsets"))
        code = _INTEGERS.get(str(kind))
        if code is None or not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int:
            raise ValueError(f"{key} is of type {kind} and shape {shape}, not a list of integers")
        if (
            not isinstance(offsets, list)
            or any(type(offset) is not int for offset in offsets)
            or not 0 <= shape[0] <= _MOST
        ):
            raise ValueError("its header is damaged")
        file.seek(8 + length + offsets[0])
        data = file.read(shape[0] * struct.calcsize(code))
    if offsets != [offsets[0], offsets[0] + shape[0] * struct.calcsize(code)] or len(data) != offsets[1] - offsets[0]:
        raise ValueError("it is cut off, or its header is damaged")
    return list(struct.unpack(f"<{shape[0]}{code[1:]}", data))


def _member(value: Any, name: str) -> Any:
    if not isinstance(value, dict) or name not in value:
        raise ValueError(f"it has no {name}")
    return value[name]


def workload_calls(lines: Iterable[tuple[int, bytes]], path: Path) -> Iterator[WorkloadCall]:
    """The calls of a file of workloads, or of traces of them: each workload is one, however many solutions were evaluated.

    Raises:
        UsageError: E080, a line is no workload.
    """
    folder, seen = DatasetFolder(path), set[tuple[str, str]]()
    for number, line in lines:
        if not line.strip():
            continue
        try:
            data = parsed(line)
            name, workload = data["definition"], data["workload"]
            axes, inputs, uuid = workload["axes"], workload["inputs"], workload["uuid"]
            if not (
                isinstance(axes, dict) and isinstance(inputs, dict) and isinstance(uuid, str) and isinstance(name, str)
            ):
                raise DecodeError("axes and inputs are objects, definition and uuid are texts")
        except (DecodeError, KeyError, TypeError) as fault:
            why = f"lacks {fault}" if isinstance(fault, KeyError) else str(fault)
            raise UsageError(
                f"{path} has a line that is no workload of FlashInfer-Bench",
                code="E080",
                where=f"line {number}",
                why=why,
                help="a line: {definition, workload: {axes, inputs, uuid}}",
            ) from None
        if (name, uuid) not in seen:
            seen.add((name, uuid))
            yield described(f"line {number}: {name}", partial(_bound, folder, name, axes, inputs))


def _bound(folder: DatasetFolder, name: str, axes: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, object]:
    return _flags(folder.definition(name), axes, inputs, folder)


def definition_calls(data: Mapping[str, Any], path: Path) -> Iterator[WorkloadCall]:
    """The call of a definition without a workload."""
    definition = KernelDefinition(data)
    yield described(definition.name, lambda: _flags(definition, {}, {}, DatasetFolder(path)))


def _flags(
    definition: KernelDefinition, axes: Mapping[str, Any], inputs: Mapping[str, Any], folder: DatasetFolder
) -> dict[str, object]:
    """Raises UnmappedCall."""
    kind, given = str(definition.data.get("op_type")), definition.member("inputs")
    if kind not in _READ:
        raise UnmappedCall(NO_FLAGS(f"op_type {kind} is no attention that fmha reads: {', '.join(_READ)}"))
    tensors, needed = _READ[kind]
    _refuse_others(definition, inputs, (*tensors, *needed))
    shapes = _shapes(definition, axes, (*tensors, *needed, *(name for name in _LENGTHS if name in given)))
    q, k, rope = shapes[tensors[0]], shapes[tensors[-2]], 0
    lse = definition.member("outputs").get("lse")
    flags: dict[str, object] = {
        "layout": "bshd",
        "heads": q[1],
        "dtype": one_type([str(given[name].get("dtype")) for name in tensors], _TYPES),
        "scale": _scale(inputs),
        "lse": lse is not None and not lse.get("optional"),
    }
    if kind == "mla_paged":
        rope = shapes["q_pe"][2]
        flags |= {"kv_heads": 1, "hdim": q[2] + rope, "mla_rope": rope}
    else:
        flags |= {"kv_heads": k[-2], "hdim": q[2], "hdim_v": shapes[tensors[-1]][-1]}
        if k[:-1] != shapes[tensors[-1]][:-1] or q[2] != k[-1]:
            raise UnmappedCall(NO_PROBLEM(f"{', '.join(tensors)} have the shapes {[shapes[name] for name in tensors]}"))
    count = shapes["kv_indptr"][0] - 1
    if "qo_indptr" in given:
        words = (definition.name.replace("_", " "), str(definition.data.get("description")))
        if not any(_CAUSAL.search(text) for text in words):
            text = "neither name nor description of the definition says whether the mask is causal"
            raise UnmappedCall(NO_MEANING(text))
        flags |= {"mask": "causal", "seqlens_q": _lengths(folder, inputs, "qo_indptr", q[0], count)}
    else:
        flags |= {"batch": q[0], "seqlen": 1}
    if kind == "gqa_ragged":
        return {**flags, "seqlens_k": _lengths(folder, inputs, "kv_indptr", k[0], count)}
    page = k[1]
    pages = _lengths(folder, inputs, "kv_indptr", shapes["kv_indices"][0], count)
    keys = [page * n for n in pages]
    if "kv_last_page_len" in given and page > 1:
        last = folder.numbers(inputs.get("kv_last_page_len"), "kv_last_page_len")
        if last is None or len(last) != count:
            raise UnmappedCall(NO_SIZES("the workload does not say how full the last pages are (kv_last_page_len)"))
        keys = [page * (n - 1) + rest if n else 0 for n, rest in zip(pages, last, strict=True)]
    return {**flags, "kv_cache": f"paged:{page}", "cache_seqlens": keys}


def _refuse_others(definition: KernelDefinition, inputs: Mapping[str, Any], needed: tuple[str, ...]) -> None:
    given = definition.member("inputs")
    lacking = [name for name in needed if name not in given]
    other = [
        name
        for name, one in given.items()
        if name not in (*needed, *_MORE) and (not one.get("optional") or name in inputs)
    ]
    if lacking or other:
        said = f"lacks the input {lacking[0]}" if lacking else f"has the input {other[0]}, which no flag describes"
        raise UnmappedCall(NO_FLAGS(f"the definition {definition.name} {said}"))


_RANKS = {"q": 3, "k": 3, "v": 3, "k_cache": 4, "v_cache": 4, "q_nope": 3, "q_pe": 3, "ckv_cache": 3, "kpe_cache": 3}


def _shapes(definition: KernelDefinition, axes: Mapping[str, Any], names: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs, in numbers."""
    sizes, given = definition.sizes(axes), definition.member("inputs")
    shapes = {name: given[name].get("shape") for name in names}
    for name, shape in shapes.items():
        wrong = not isinstance(shape, list) or not all(isinstance(axis, str) for axis in shape)
        if wrong or len(shape) != _RANKS.get(name, 1):
            raise UnmappedCall(NO_FLAGS(f"{name} has the axes {shape} in the definition {definition.name}"))
    still = sorted({str(axis) for shape in shapes.values() for axis in shape if axis not in sizes})
    if still:
        hint = "a workload of FlashInfer-Bench has them"
        raise UnmappedCall(NO_SIZES(f"nothing says the size of {', '.join(still)}", hint))
    return {name: tuple(sizes[axis] for axis in shape) for name, shape in shapes.items()}


def _lengths(folder: DatasetFolder, inputs: Mapping[str, Any], name: str, total: int, count: int) -> list[int]:
    """The length of each sequence, from the offsets in a file; of a single one from the sizes."""
    ends = folder.numbers(inputs.get(name), name)
    if ends is None:
        if count == 1:
            return [total]
        text = f"the workload does not say the lengths of its {count} sequences: {name} is no file"
        raise UnmappedCall(NO_SIZES(text))
    lengths = [end - start for start, end in pairwise(ends)]
    if len(lengths) != count or any(n < 0 for n in lengths) or ends[0] != 0 or ends[-1] != total:
        raise UnmappedCall(NO_PROBLEM(f"{name} does not divide {total} rows among {count} sequences"))
    return lengths


def _scale(inputs: Mapping[str, Any]) -> float | None:
    source = inputs.get("sm_scale")
    if source is None:
        return None
    value = source.get("value") if isinstance(source, dict) and source.get("type") == "scalar" else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnmappedCall(NO_MEANING("the workload does not say the value of sm_scale"))
    return float(value)
