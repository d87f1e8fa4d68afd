"""A test backend in which the query length selects the kernel's behaviour, so ``--seqlen`` sweeps over faults.

Multiples of ``EVERY`` up to 100 fail, each in the way that ``FATES`` gives. Every other length works correctly. The
backend is a plugin, so ``fmha`` processes find it by its entry point like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fmha_null import NullBackend
from fmha_null.kernels import ARCH, Behaviour, null_kernel

from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.dtypes import DType
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.verdict import Verdict

NAME = "rows"
EVERY = 5
SLOW_FROM = 200
"""From this length on, rows take measurable time."""

FATES: tuple[tuple[Behaviour, Verdict], ...] = (
    (Behaviour.SEGFAULT, Verdict.CRASHED),
    (Behaviour.HANG, Verdict.TIMED_OUT),
    (Behaviour.EXIT, Verdict.CRASHED),
    (Behaviour.GARBAGE_STDOUT, Verdict.PASSED),  # what a kernel prints goes to its log, never to stdout
    (Behaviour.GARBAGE_PROTOCOL, Verdict.CRASHED),
    (Behaviour.NAN, Verdict.WRONG),
    (Behaviour.OOB_BEFORE, Verdict.OUT_OF_BOUNDS),
    (Behaviour.OOB_AFTER, Verdict.OUT_OF_BOUNDS),
    (Behaviour.OOB_GAP, Verdict.OUT_OF_BOUNDS),
    (Behaviour.ABORT, Verdict.CRASHED),
    (Behaviour.BUILD_ERROR, Verdict.BUILD_FAILED),
    (Behaviour.LAUNCH_ERROR, Verdict.LAUNCH_FAILED),
    (Behaviour.EXCEPTION, Verdict.CRASHED),
    (Behaviour.OOM, Verdict.OUT_OF_MEMORY),
    (Behaviour.ZEROS, Verdict.WRONG),
    (Behaviour.WRONG_VALUE, Verdict.WRONG),
    (Behaviour.NEVER_WRITES, Verdict.WRONG),
    (Behaviour.INPUT_WRITE, Verdict.OUT_OF_BOUNDS),
    (Behaviour.NONDETERMINISTIC, Verdict.NONDETERMINISTIC),
    (Behaviour.SEGFAULT, Verdict.CRASHED),
)
"""Fault number n belongs to query length EVERY * (n + 1)."""


def fate_of(seqlen: int) -> tuple[Behaviour, Verdict]:
    """What the kernel of a row does, and the verdict that the row must get."""
    if seqlen % EVERY == 0 and seqlen // EVERY <= len(FATES):
        return FATES[seqlen // EVERY - 1]
    return (Behaviour.SLOW if seqlen >= SLOW_FROM else Behaviour.HONEST), Verdict.PASSED


class RowsBackend(NullBackend):
    """The null backend with one kernel for each row."""

    name = NAME

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return (_kernel(behaviour) for behaviour in Behaviour if arch.name == ARCH)

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        yield Supported(_kernel(fate_of(problem.seqlen_q)[0]), (0,))


def _kernel(behaviour: Behaviour) -> KernelSpec:
    return replace(null_kernel(DType.FP32, Family.FWD, behaviour), backend=NAME)


backend: Backend = RowsBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
