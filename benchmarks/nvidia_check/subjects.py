"""The backends that the NVIDIA check knows, in the order of its checks, and its checks of each."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from check_case import CheckCase

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.problem import Problem
from nvidia_check import cudnn_cases, efficient_cases, flash_3_cases, flash_cases, triton_cases
from nvidia_check.shards import Wanted
from nvidia_check.speed_points import Point

WITHOUT_BF16 = ("sm_60", "sm_70", "sm_75")
WITHOUT_FP8 = (*WITHOUT_BF16, "sm_80", "sm_86", "sm_87")
WITH_CLUSTERS = ("sm_100a", "sm_103a")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A backend, its problems, and its competitors.

    Attributes:
        title: its name on pages.
        sanitized: names of the cases that run under compute-sanitizer, one for each kind of main kernel.
        points: timed problems.
        draw: the flags of a random problem of a given problem's kind.
        count: random problems of a whole check.
        rivals: PyTorch's operators (``rivals.py``) that a point is timed against. The race is against the first
            that can run it.
        same_kernel: whether the first rival launches the kernels that our backend launches, by their names in upstream.
        share: of the time for a part, if several backends are checked.
    """

    backend: str
    title: str
    cases: tuple[CheckCase, ...]
    sanitized: tuple[str, ...]
    points: tuple[Point, ...]
    draw: Callable[[Problem, Random], list[str]]
    count: int
    rivals: tuple[str, ...]
    same_kernel: bool = False
    share: float = 1.0

    def at(self, device: DeviceFacts) -> Subject:
        """The subject on a device.

        Cases of fp8, and of clusters of the kernel for Blackwell, are left out where there is none. Where there is no bf16, fp16 takes its place.
        """
        if not set(device.archs) & set(WITH_CLUSTERS):
            self = replace(self, cases=tuple(case for case in self.cases if not case.kernels))
        if device.archs[0] in WITHOUT_FP8:
            self = replace(self, cases=tuple(case for case in self.cases if "fp8" not in case.flags))
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
    def kernels(self) -> dict[str, str]:
        """What the kernel's name holds, by flags, of the cases that are not for the first kernel."""
        return {case.flags: case.kernels for case in self.cases if case.kernels}

    @property
    def flags(self) -> tuple[str, ...]:
        """Every problem except the random ones, which need no further kernels."""
        return tuple(dict.fromkeys((*(case.flags for case in self.cases), *(point.flags for point in self.points))))


FLASH = Subject(
    backend="flash_attn",
    title="FlashAttention-2",
    cases=flash_cases.CASES,
    sanitized=flash_cases.SANITIZED,
    points=flash_cases.POINTS,
    draw=flash_cases.drawn,
    count=500,
    rivals=("flash",),
    share=0.38,
)
FLASH_3 = Subject(
    backend="flash_attn_3",
    title="FlashAttention-3",
    cases=flash_3_cases.CASES,
    sanitized=flash_3_cases.SANITIZED,
    points=flash_3_cases.POINTS,
    draw=flash_3_cases.drawn,
    count=300,
    rivals=("flash_3", "flash", "cudnn"),
    share=0.25,
)
EFFICIENT = Subject(
    backend="mem_efficient",
    title="Memory-efficient attention",
    cases=efficient_cases.CASES,
    sanitized=efficient_cases.SANITIZED,
    points=efficient_cases.POINTS,
    draw=efficient_cases.drawn,
    count=300,
    rivals=("efficient", "cudnn"),
    same_kernel=True,
    share=0.25,
)
CUDNN = Subject(
    backend="cudnn_oss",
    title="cuDNN's published kernels",
    cases=cudnn_cases.CASES,
    sanitized=cudnn_cases.SANITIZED,
    points=cudnn_cases.POINTS,
    draw=cudnn_cases.drawn,
    count=100,
    rivals=("cudnn", "flash"),
    share=0.12,
)
SUBJECTS = (FLASH, FLASH_3, EFFICIENT, CUDNN)
TRITON = Subject(
    backend="triton",
    title="Triton's kernels",
    cases=triton_cases.CASES,
    sanitized=triton_cases.SANITIZED,
    points=triton_cases.POINTS,
    draw=triton_cases.drawn,
    count=100,
    rivals=("flash", "cudnn"),
    share=0.25,
)
PLUGGED = (TRITON,)
"""Subjects whose backends are plugins, which a check without names leaves out where they are not installed."""
KNOWN = (*SUBJECTS, *PLUGGED)


def subjects_of(names: str) -> tuple[Subject, ...]:
    """The subjects of a comma list of backends, in the order of the check; every installed one for an empty text.

    Raises:
        ArgumentTypeError: the check does not know a backend.
    """
    known = {subject.backend: subject for subject in KNOWN}
    wanted = names.split(",") if names else [name for name in known if name in build_registry().backends]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ArgumentTypeError(f"no check for {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(subject for name, subject in known.items() if name in wanted)
