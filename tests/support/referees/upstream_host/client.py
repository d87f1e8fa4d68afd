"""Calls of upstream's APIs, and their effects."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Device:
    """The device facts that upstream's host code reads: compute capability, multiprocessors, bytes of shared memory."""

    major: int
    minor: int
    multiprocessors: int
    shared_per_multiprocessor: int
    shared_per_block: int


@dataclass(frozen=True)
class FakeTensor:
    """A tensor without values: element type, address, sizes and strides (in elements)."""

    dtype: str
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}:{self.address}:{_list(self.sizes)}:{_list(self.strides)}"


def _list(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


@dataclass(frozen=True)
class Call:
    """One call of an API of ``flash_api.cpp``.

    ``arguments`` has upstream's names without final underscores; omitted tensors are absent.
    """

    api: str
    arguments: Mapping[str, FakeTensor | int | float | bool]
    device: Device
    seed: int = 0
    offset: int = 0

    def line(self) -> str:
        """The call in the program's input format."""
        facts = {"call": self.api, **vars(self.device), "seed": self.seed, "offset": self.offset}
        words = {**facts, **self.arguments}
        return " ".join(f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in words.items())


@dataclass(frozen=True)
class Launch:
    """One kernel launch of upstream's.

    It holds the template-id, the extents, the dynamic shared memory and the raw parameter struct. It also has the
    shared memory that upstream requested permission for (None without a request) and the second argument, if the kernel
    has one.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    smem: int
    smem_allowed: int | None
    params: bytes
    splits: int | None


@dataclass(frozen=True)
class Allocation:
    """Memory that upstream allocated: its address, bytes, sizes, and how (empty, zeros, copy, pad)."""

    address: int
    bytes: int
    how: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The effects of one call; ``refused`` is the text of the failed check, or empty."""

    refused: str
    launches: tuple[Launch, ...]
    allocations: tuple[Allocation, ...]
    events: tuple[str, ...]


Fields = dict[str, tuple[int, int]]
"""(offset, size) by name."""


class Program:
    """An upstream's host code as a program: it answers one line for each line of its input."""

    def __init__(self, program: Path) -> None:
        self.program = program

    def ask(self, calls: Iterable[Call]) -> list[Answer]:
        """Make the calls in order."""
        return [_answer(found) for found in self.raw([call.line() for call in calls])]

    def raw(self, lines: Sequence[str]) -> list[Any]:
        """The documents that answer these lines."""
        done = subprocess.run(
            [self.program], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=280
        )
        answers = done.stdout.splitlines()
        if done.returncode != 0 or len(answers) != len(lines):
            last = lines[min(len(answers), len(lines) - 1)]
            raise RuntimeError(f"upstream's host code ended ({done.returncode}) at {last}\n{done.stderr[-2000:]}")
        return [json.loads(text) for text in answers]


class Host(Program):
    """FlashAttention's host code."""

    def heuristic(self, arguments: Iterable[tuple[int, int, int, int]]) -> list[int]:
        """``num_splits_heuristic`` of (blocks of queries, multiprocessors, blocks of keys, maximum)."""
        names = ("blocks", "multiprocessors", "key_blocks", "most")
        head = "call=num_splits_heuristic "
        return self.raw([head + " ".join(f"{k}={v}" for k, v in zip(names, a, strict=True)) for a in arguments])

    def layout(self) -> dict[str, tuple[int, Fields]]:
        """Bytes and fields of both parameter structs, "forward" and "backward", as this compiler lays them out."""
        (found,) = self.raw(["call=layout"])
        return {way: (part["bytes"], {n: (o, s) for n, o, s in part["fields"]}) for way, part in found.items()}

    def kernels(self) -> frozenset[str]:
        """The template-ids of all kernels that upstream's launch templates instantiate, over all architectures."""
        found = set(re.findall(rb"\0(_ZN5flash\d+__device_stub__\w+)(?=\0)", self.program.read_bytes()))
        names = self.raw([f"call=demangle symbol={symbol.decode()}" for symbol in sorted(found)])
        return frozenset(template_id(name) for name in names)


def _answer(found: dict[str, Any]) -> Answer:
    return Answer(
        refused=found["refused"],
        launches=tuple(
            Launch(
                kernel=template_id(launch["kernel"]),
                grid=tuple(launch["grid"]),
                block=tuple(launch["block"]),
                smem=launch["smem"],
                smem_allowed=None if launch["smem_allowed"] < 0 else launch["smem_allowed"],
                params=bytes.fromhex(launch["params"]),
                splits=None if launch["splits"] < 0 else launch["splits"],
            )
            for launch in found["launches"]
        ),
        allocations=tuple(
            Allocation(a["address"], a["bytes"], a["how"], tuple(a["sizes"])) for a in found["allocations"]
        ),
        events=tuple(found["events"]),
    )


def template_id(demangled: str) -> str:
    """``flash_fwd_kernel<Flash_fwd_kernel_traits<128, ...>, false, ...>`` from a demangled stub.

    The return type, the namespace, the compiler's prefix, the parameter list and the base class that is a default
    argument are removed.
    """
    text = demangled.removeprefix("void ").rpartition("(")[0]
    text = text.replace("flash::__device_stub__", "")
    while (start := text.find(", Flash_kernel_traits<")) >= 0:
        text = text[:start] + text[text.index(">", start) + 1 :].lstrip()
    return text.replace("> >", ">>")
