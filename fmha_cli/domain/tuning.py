"""Protocols of backends for ``fmha tune``: kernels that exist for tuning alone, and files in an upstream's own form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem


@runtime_checkable
class Varied(Protocol):
    """A backend that has further kernels to try for a problem, beyond the ones that ``kernels`` lists and ``decide``
    ranks.

    ``--kernel`` names them like others; nothing else chooses one, unless it was tuned (``fmha tune``). The search space of a backend
    without this protocol is the set of kernels that it decides about.
    """

    def variants(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """The further kernels of an architecture that can be built, lazily, without device, sources or compiler."""

    def decide_variants(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """One decision for every further candidate on a device, with all reasons of a refusal; also those that cannot be
        built."""


@dataclass(frozen=True, kw_only=True)
class TunedKernel:
    """One tuned problem for a file in an upstream's own form.

    Attributes:
        kernel: the kernel to choose.
        level_ns: its time when it was tuned, None if unknown.
    """

    problem: Problem
    kernel: KernelSpec
    level_ns: float | None = None


@dataclass(frozen=True)
class TunedFile:
    """A file in an upstream's own form.

    Attributes:
        proof: the evidence that the upstream takes it; None without any.
        why: why there is none.
    """

    text: str
    proof: str | None = None
    why: str | None = None


@runtime_checkable
class Exporting(Protocol):
    """A backend whose upstream reads tuned kernels from a file."""

    def export_tuned(self, form: str, kernels: Sequence[TunedKernel], options: Mapping[str, str]) -> TunedFile:
        """The file of some tuned kernels of this backend.

        Args:
            form: one that ``Builtin.exports`` declares.
            options: the backend's own options that the user gave, by flag name.

        Raises:
            UsageError: E066, these problems cannot share a file of that form.
        """
