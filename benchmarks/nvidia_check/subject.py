"""``Subject``: what the check does for one backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from check_case import Case

from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from nvidia_check.shards import Wanted
from nvidia_check.speed_points import Point

WITHOUT_BF16 = ("sm_60", "sm_70", "sm_75")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A backend, its problems, and what it is compared with.

    Attributes:
        title: its name on pages.
        sanitized: names of the cases that run under compute-sanitizer, one for each kind of main kernel.
        points: timed problems.
        draw: the flags of a random problem of a given problem's kind.
        count: random problems of a whole check.
        rivals: PyTorch's operators (``rivals.py``) that a point is timed beside. The race is against the first.
        same_kernel: whether the first rival launches the kernels that our backend launches, by their names in upstream.
        share: of the time for a part, if several backends are checked.
    """

    backend: str
    title: str
    cases: tuple[Case, ...]
    sanitized: tuple[str, ...]
    points: tuple[Point, ...]
    draw: Callable[[Problem, Random], list[str]]
    count: int
    rivals: tuple[str, ...]
    same_kernel: bool = False
    share: float = 1.0

    def at(self, device: DeviceFacts) -> Subject:
        """The subject on a device: where there is no bf16, fp16 takes its place."""
        if device.archs[0] not in WITHOUT_BF16:
            return self
        cases = {case.name: replace(case, flags=case.flags.replace("bf16", "fp16")) for case in self.cases}
        points = tuple(replace(point, flags=point.flags.replace("bf16", "fp16")) for point in self.points)
        return replace(self, cases=tuple(cases.values()), points=points)

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """The cases as problems to check."""
        return tuple(Wanted(case.name, case.flags, case.families) for case in self.cases)

    @property
    def flags(self) -> tuple[str, ...]:
        """Every problem except the random ones, which need no further kernels."""
        return tuple(dict.fromkeys((*(case.flags for case in self.cases), *(point.flags for point in self.points))))
