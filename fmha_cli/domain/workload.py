"""``Workload``: problems with counts, as a file has them: the calls of a client, a server or a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from fmha_cli.domain.members import Least, ShownAs
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason

NO_SIZES = partial(Reason, "W001")
"""The file does not say how large the call is."""
NO_MEANING = partial(Reason, "W002")
"""The file does not say what the call computes."""
NO_FLAGS = partial(Reason, "W003")
"""The call is known, and no problem of fmha describes it."""
NO_PROBLEM = partial(Reason, "W004")
"""The sizes of the call contradict each other, or define nothing."""


class WorkloadKind(StrEnum):
    """The programs whose files are read."""

    RECORDING = "recording"
    """Calls that a client recorded in fmha's own form (``fmha.workload/1``)."""
    FLASHINFER = "flashinfer-bench"
    """Definitions and workloads of FlashInfer-Bench, and the definitions of FlashInfer's trace dump."""
    TORCH = "torch profiler"
    """A trace of PyTorch's profiler."""
    ONNX = "onnx"
    """The attention nodes of an ONNX model."""


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """One line of a recording: a distinct call with its count. Equal calls of several lines add up."""

    schema: Literal["fmha.workload/1"] = "fmha.workload/1"
    count: Annotated[int, Least(1), "how often it was called"]
    flags: Annotated[str | None, "the problem, as flags of fmha run"] = None
    call: Annotated[str | None, "a call that no flags describe, in words"] = None
    reason: Annotated[str | None, "why no flags describe it"] = None

    json_later: ClassVar[tuple[str, ...]] = ("flags", "call", "reason")

    def __post_init__(self) -> None:
        told = (self.flags is not None, self.call is not None, self.reason is not None)
        if told not in ((True, False, False), (False, True, True)):
            raise ValueError("either flags, or call and reason")


@dataclass(frozen=True, kw_only=True)
class WorkloadCall:
    """A distinct call.

    Attributes:
        place: where the file has it first: a line, an operator, a node.
        problem: None if no problem describes the call; ``reason`` says why.
    """

    count: Annotated[int, Least(1), "how often it is called"]
    place: Annotated[str, "where the file has it first"]
    problem: Annotated[Problem | None, ShownAs(dict[str, Any])] = None
    reason: Annotated[Reason | None, "why no problem describes it"] = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The distinct calls of a file, in the order in which it has them first."""

    path: str
    kind: WorkloadKind
    calls: tuple[WorkloadCall, ...]

    @property
    def total(self) -> int:
        """All calls of the file."""
        return sum(call.count for call in self.calls)

    @property
    def refused(self) -> int:
        """The calls that no problem describes."""
        return sum(call.count for call in self.calls if call.problem is None)


def merged(calls: Iterable[WorkloadCall]) -> tuple[WorkloadCall, ...]:
    """The calls, those of one problem or of one reason added up, in the order of the first of each."""
    counts: dict[object, int] = {}
    firsts: dict[object, WorkloadCall] = {}
    for call in calls:
        key = call.problem if call.problem is not None else (call.place, call.reason)
        firsts.setdefault(key, call)
        counts[key] = counts.get(key, 0) + call.count
    return tuple(
        WorkloadCall(count=counts[key], place=first.place, problem=first.problem, reason=first.reason)
        for key, first in firsts.items()
    )
