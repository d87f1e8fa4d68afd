"""The backends that the NVIDIA check knows, in the order in which it checks them."""

from __future__ import annotations

from collections.abc import Sequence

from nvidia_check import cudnn_cases, efficient_cases, flash_cases
from nvidia_check.random_problems import flash_problem
from nvidia_check.speed_points import FLASH_POINTS
from nvidia_check.subject import Subject

FLASH = Subject(
    backend="flash_attn",
    title="FlashAttention-2",
    cases=flash_cases.CASES,
    sanitized=flash_cases.SANITIZED,
    points=FLASH_POINTS,
    draw=flash_problem,
    count=500,
    rivals=("flash",),
    share=0.5,
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
    share=0.35,
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
    share=0.15,
)
SUBJECTS = (FLASH, EFFICIENT, CUDNN)


def subjects_of(names: Sequence[str]) -> tuple[Subject, ...]:
    """The subjects of some backends, or of all if no name is given.

    Raises:
        SystemExit: the check does not know a backend.
    """
    known = {subject.backend: subject for subject in SUBJECTS}
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise SystemExit(f"no check for {', '.join(unknown)}; there are {', '.join(known)}")
    return tuple(subject for name, subject in known.items() if not names or name in names)
