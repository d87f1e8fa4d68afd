"""What a driver and its workers tell each other: JSON lines over pipes, or through a cluster.

The driver sends ``ChunkJob``; the worker answers with events, each a JSON object with the member ``event``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.layer import Layer
from fmha_cli.domain.problem import Problem
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.run.tuned_choice import Kept


@dataclass(frozen=True, kw_only=True)
class ChunkJob:
    """A chunk of rows for one worker. Rows are numbered from 0 in the order in which the worker plans them.

    Attributes:
        number: of the chunk; events carry it.
        request: the options, with the worker's own device.
        points: the flags of every problem.
        layers: the layers of a model, one for each problem; empty without a model.
        expected: what each row must be (``mark_of``), so a worker runs only planned rows.
        past: row number -> record of rows that are done.
        builds: what has to be built for the rows, by ``Order.key``.
        tuned: the part of ``Spec.tuned`` that concerns the problems.
    """

    number: int
    request: Request
    points: tuple[str, ...]
    layers: tuple[Layer | None, ...]
    expected: tuple[str, ...]
    past: Mapping[str, Mapping[str, Any]]
    builds: tuple[str, ...] = ()
    tuned: Kept = field(default_factory=dict)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems, in order."""
        return tuple(map(Problem.from_cli, self.points))

    def on(self, device: str, jobs: int) -> ChunkJob:
        """The same job for one device, with a number of compilers at once unless the user gave one."""
        return replace(self, request=replace(self.request, device=device, jobs=self.request.jobs or jobs))

    def line(self) -> bytes:
        """One line of JSON. A budget without a limit is infinite, which Python's JSON writes and reads."""
        return json.dumps(to_json(self)).encode("ascii") + b"\n"

    @staticmethod
    def of_line(line: bytes | str) -> ChunkJob:
        """The inverse of :meth:`line`. Raises DecodeError."""
        return from_json(ChunkJob, json.loads(line), "job")


def mark_of(row: Row) -> str:
    """The identity of a planned row, wherever it runs: problem, kernel, cache mode and place in its group."""
    kernel = "" if row.choice is None else row.choice.kernel.digest[:16]
    return f"{row.problem.digest[:16]} {kernel} {row.cache.value} {row.asked or ''} {row.turn}"


Event = Mapping[str, Any]
"""``built`` (digests of entries of the build cache), ``began`` (rows), ``ended`` (row, record), ``phase`` (name), ``beat``, ``said`` (text), ``done``, ``refused`` (why), ``ready``.
Those of a chunk have its number in ``chunk``."""


def event_lines(buffer: bytearray, data: bytes) -> Sequence[Event]:
    """The whole lines received so far; the rest stays in the buffer. Anything other than an event is dropped: a
    process that is killed may leave half a line.
    """
    buffer += data
    *whole, rest = bytes(buffer).split(b"\n")
    buffer[:] = rest
    found = []
    for line in whole:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and isinstance(value.get("event"), str):
            found.append(value)
    return found
