"""``read_workload``: a file with problems and counts, whichever of the programs of ``WorkloadKind`` wrote it. Its content says which."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from fmha_cli.domain.codec import DecodeError
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.reading import parsed
from fmha_cli.domain.regular import open_regular
from fmha_cli.domain.workload import Workload, WorkloadCall, WorkloadKind, merged
from fmha_cli.workloads.flashinfer import definition_calls, workload_calls
from fmha_cli.workloads.onnx_model import onnx_calls
from fmha_cli.workloads.recording import recorded_calls
from fmha_cli.workloads.torch_trace import torch_calls

_HEAD = 1 << 16
"""Bytes by which the kind of a file is told."""
_LINE = 16 << 20
"""Bytes of the longest line of JSON Lines."""
_WHOLE = 1 << 31
"""Bytes of the largest model: protocol buffers hold no more. Weights may be in files beside it."""
_GZIP = b"\x1f\x8b"
_KEY = re.compile(rb'"(\w+)"\s*:')
_KINDS = (
    "a recording of fmha (`fmha schema workload`), workloads or a definition of FlashInfer-Bench, a Chrome trace of PyTorch's "
    "profiler, or an ONNX model"
)


def read_workload(path: Path, flag: str = "--workload") -> Workload:
    """The calls of a file, which may be compressed by gzip.

    Args:
        flag: where it was given, for errors.

    Raises:
        UsageError: E080, the file cannot be read, is damaged or empty, is of no known kind or version, or has no call.
        EnvironmentProblem: X052, the package onnx is missing.
    """
    try:
        with open_regular(path) as file:
            packed = file.peek(2)[:2] == _GZIP
            stream = cast(IO[bytes], gzip.GzipFile(fileobj=file) if packed else file)
            head = stream.read(_HEAD)
            stream.seek(0)
            kind, calls = _read(stream, head, path, flag)
            found = merged(calls)
            while stream.read(_HEAD):
                pass  # the end of a compressed file has its checksum
    except (OSError, EOFError, zlib.error) as fault:
        why = (isinstance(fault, OSError) and fault.strerror) or str(fault)
        help = "name a file that can be read; a client's recording is workload.jsonl in its folder"
        raise UsageError(
            f"{flag} {path} cannot be read", code="E080", where=flag, why=why.lower(), help=help
        ) from fault
    except DecodeError as fault:
        help = "write the file again"
        raise UsageError(f"{flag} {path} is damaged", code="E080", where=flag, why=str(fault), help=help) from fault
    if not found:
        what = f"{flag} {path} has no attention call"
        help = _NOTHING[kind]
        raise UsageError(what, code="E080", where=flag, why=f"it is read as a file of kind: {kind}", help=help)
    return Workload(path=str(path), kind=kind, calls=found)


_NOTHING = {
    WorkloadKind.RECORDING: "record some calls",
    WorkloadKind.FLASHINFER: "name a file of `workloads`",
    WorkloadKind.TORCH: "profile code that calls scaled_dot_product_attention, with activities=[ProfilerActivity.CPU, ...]",
    WorkloadKind.ONNX: "export with opset 23 or later, or fuse attention with onnxruntime's optimizer",
}


def _read(stream: IO[bytes], head: bytes, path: Path, flag: str) -> tuple[WorkloadKind, Iterator[WorkloadCall]]:
    """The kind of a file, and its calls as they are read."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        raise UsageError(f"{flag} {path} is empty", code="E080", where=flag, help=f"name {_KINDS}")
    if not text.startswith((b"{", b"[")):
        if text[:1] == b"\x08":  # the first field of ModelProto: ir_version
            data = stream.read(_WHOLE)
            if stream.read(1):
                raise DecodeError(f"larger than the {_WHOLE >> 30} GiB of a model")
            return WorkloadKind.ONNX, onnx_calls(data)
        raise _unknown(path, flag, "it begins neither as JSON nor as an ONNX model")
    keys = _keys(text)
    if text.startswith(b"[") or keys & {"traceEvents", "schemaVersion"}:
        return WorkloadKind.TORCH, torch_calls(stream)
    if {"definition", "workload"} <= keys:
        return WorkloadKind.FLASHINFER, workload_calls(_lines(stream), path)
    if {"op_type", "axes"} <= keys:
        data = parsed(stream.read(_LINE))
        return WorkloadKind.FLASHINFER, definition_calls(data if isinstance(data, dict) else {}, path)
    if {"schema", "count"} <= keys:
        return WorkloadKind.RECORDING, recorded_calls(_lines(stream), str(path))
    raise _unknown(path, flag, f"its members {', '.join(sorted(keys)[:6])} are those of no file that is read")


def _unknown(path: Path, flag: str, why: str) -> UsageError:
    what = f"{flag} {path} is of no kind that fmha reads"
    return UsageError(what, code="E080", where=flag, why=why, help=f"name {_KINDS}")


def _keys(text: bytes) -> set[str]:
    """The names of members near the start: of the first line, if it is an object; else of everything."""
    line = text.splitlines()[0]
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {name.decode() for name in _KEY.findall(text)}
    return set(found) if isinstance(found, dict) else set()


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := stream.readline(_LINE):
        number += 1
        if len(line) == _LINE:
            raise DecodeError(f"line {number} has more than {_LINE >> 20} MiB")
        yield number, line.removeprefix(b"\xef\xbb\xbf")
