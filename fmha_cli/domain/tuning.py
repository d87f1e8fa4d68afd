"""Protocols of backends for ``fmha tune``: kernels that exist for tuning alone, and files in an upstream's own form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem


@runtime_checkable
class Varied(Protocol):
    """A backend that has further kernels to try for a problem, besides those that ``kernels`` lists and ``decide`` ranks.

    ``--kernel`` names them like others; nothing else chooses one, unless it was tuned (``fmha tune``). The search space of a backend
    without this protocol is what it decides about.
    """

    def variants(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """The further kernels of an architecture that can be built, lazily, without device, sources or compiler."""

    def decide_variants(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        """One decision for every further candidate on a device, with all reasons of a refusal; also those that cannot be
        built."""
