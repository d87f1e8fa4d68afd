"""``RememberedChoice``: the remembered choice for one tuned problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from fmha_cli.bench.intervals import LengthPlace, place_of
from fmha_cli.bench.scope import Scope
from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.problem import Problem


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
