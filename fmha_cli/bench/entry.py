"""``RememberedChoice``: the remembered choice for one tuned problem, and its ``Scope``: where it counts. Any difference, and it does not.

As FlashInfer's autotuner, which keeps the versions of itself and of its libraries and the device's name next to its choices, and rejects
a file that differs. Between tuned seqlens, each tuned length stands for the lengths that are nearer to it than to its neighbours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.members import Count, Least
from fmha_cli.domain.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Everything that must be as it was when kernels were tuned."""

    device: Annotated[str, "name of the device's model"]
    units: Annotated[int, Least(1), "cores, SMs or CUs"]
    driver: Annotated[str, "versions that the backend and the system's drivers state"]
    compiler: Annotated[str, "version of the compiler of both kernels"]
    source: Annotated[str, "digest of the source, flags and headers of both kernels"]
    codegen: Annotated[str, "versions of fmha and of its encoding"]
    threads: Annotated[Count, "of a kernel on the CPU"]
    cache: Annotated[str, "hot or cold"]

    @property
    def device_digest(self) -> str:
        """sha256 over the facts of the device alone; the store finds entries by it."""
        return digest_of([self.device, self.units, self.driver])

    @property
    def digest(self) -> str:
        """sha256 over every member."""
        return digest_of(to_json(self))

    def differences(self, now: Scope) -> tuple[str, ...]:
        """One text for each member that is different now."""
        return tuple(
            f"{field.name} {_shown(field.name, getattr(self, field.name))} then, {_shown(field.name, getattr(now, field.name))} now"
            for field in fields(self)
            if getattr(self, field.name) != getattr(now, field.name)
        )


def _shown(name: str, value: object) -> str:
    return str(value)[:12] if name == "source" else str(value) or "unknown"


def joined_versions(*versions: str | None) -> str:
    """Versions that a backend and the system state, as one text."""
    return ", ".join(version for version in versions if version)


def source_digest(parts: Sequence[object]) -> str:
    """The digest of the kernels' sources."""
    return digest_of(list(parts))


_LENGTHS = ("seqlen_q", "seqlen_k")
_LISTS = ("seqlens_q", "seqlens_k", "cache_seqlens", "cache_leftpad", "cache_batch_idx")


@dataclass(frozen=True)
class LengthPlace:
    """Where a problem lies among the problems that differ from it in one length only.

    Attributes:
        family: digest of everything else. Lengths of single sequences are part of it, so such problems are alone.
        at: the length.
    """

    family: str
    at: int


def place_of(problem: Problem) -> LengthPlace:
    """The place of a problem. As many queries as keys grow together; otherwise the keys do, with a fixed number of
    queries.
    """
    told = problem.to_dict()
    rest = {name: value for name, value in told.items() if name not in _LENGTHS}
    square = problem.seqlen_q == problem.seqlen_k
    axis = "both" if square else f"keys beside {problem.seqlen_q} queries"
    alone = [told[name] for name in _LENGTHS] if any(name in told for name in _LISTS) else None
    return LengthPlace(digest_of([rest, axis, alone]), problem.seqlen_k)


def bounds(tuned: Sequence[int]) -> tuple[int, ...]:
    """The bounds between neighbours of ascending lengths; each belongs to the longer one. None is beyond either."""
    return tuple((low + high + 1) // 2 for low, high in pairwise(tuned))


def owner(tuned: Sequence[int], at: int) -> int | None:
    """The number of the tuned length that stands for a length; None outside of the tuned ones.

    Args:
        tuned: ascending, each once.
    """
    if not tuned or not tuned[0] <= at <= tuned[-1]:
        return None
    return bisect_right(bounds(tuned), at)


class Result(StrEnum):
    """The result of tuning a problem."""

    TUNED = "tuned"
    """A kernel is surely faster than the default, and passed validation."""
    KEPT = "kept"
    """The default: it is the fastest, or no other is surely faster by the requested margin."""


@dataclass(frozen=True, kw_only=True)
class RememberedChoice:
    """One tuned problem in one scope.

    Attributes:
        problem: the tuned problem.
        default: the kernel that would have been chosen, by name.
        kernel: the kernel to choose; the default's name where it was kept.
        gain: how much longer, as a share, the default takes than the kernel, with its interval; None where the default
            was kept.
        run: id of the run whose records hold the measurements.
        made: ISO 8601 in UTC.
        why: why the default was kept.
    """

    problem: Problem
    scope: Scope
    result: Result
    default: str
    kernel: str
    gain: Annotated[float | None, "the default takes this share longer; null: it was kept"] = None
    gain_ci95: tuple[float, float] | None = None
    run: Annotated[str | None, "id of the run that measured it"] = None
    made: Annotated[str, "ISO 8601 in UTC"] = ""
    why: Annotated[str | None, "why the default was kept"] = None

    @property
    def flags(self) -> str:
        """The shortest flags of the problem."""
        return self.problem.repro()

    @property
    def place(self) -> LengthPlace:
        """Where the problem lies among the problems that differ from it in one length."""
        return place_of(self.problem)

    @property
    def digest(self) -> str:
        """The entry's name: 16 digits over problem and scope."""
        return digest_of([self.problem.digest, self.scope.digest])[:16]

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain JSON values, its problem as ``flags``."""
        return {name: value for name, value in to_json(self).items() if name != "problem"} | {"flags": self.flags}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> RememberedChoice:
        """The inverse of :meth:`to_dict`.

        Raises:
            FmhaError, DecodeError, ValueError, LookupError: another version of fmha wrote it, or it is damaged.
        """
        ends = data["gain_ci95"]
        return RememberedChoice(
            problem=Problem.from_cli(data["flags"]),
            scope=from_json(Scope, data["scope"], "scope"),
            result=Result(data["result"]),
            gain_ci95=None if ends is None else (ends[0], ends[1]),
            **{name: data[name] for name in ("default", "kernel", "gain", "run", "made", "why")},
        )
