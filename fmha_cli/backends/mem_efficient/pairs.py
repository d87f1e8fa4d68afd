"""Rules K534-K536: what a backward kernel needs of the forward kernel of the same plan. Their texts are data.

The forward kernel leaves O and the LSE in scratch tensors, and the backward kernel reads them there. Nothing is converted
between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fmha_cli.backends.cuda.choosing import Finder, Found, told, told_conditions
from fmha_cli.backends.mem_efficient.catalogue import NAME
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import situation_of
from fmha_cli.codegen.mem_efficient.traits import traits_of
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason


@dataclass(frozen=True)
class Before:
    """What a backward kernel follows: the problem of both passes, and the forward kernel."""

    problem: Problem
    forward: KernelSpec


def _sums(before: Before, kernel: KernelSpec) -> Found:
    traits = traits_of(kernel)
    return told(not traits.facts["kKernelComputesDelta"], name=traits.name)


def _blind(before: Before, kernel: KernelSpec) -> Found:
    problem = before.problem
    return told(situation_of(problem, DeviceFacts.of_arch(kernel.arch)).blind, mask=problem.mask.text())


def _padded(before: Before, kernel: KernelSpec) -> Found:
    first, second = before.problem.passes()
    forward, backward = storage_of(first, before.forward).hdims, storage_of(second, kernel).hdims
    return told(forward != backward, forward=forward, backward=backward)


_FINDERS: Mapping[str, Finder[Before]] = MappingProxyType({"K534": _sums, "K535": _blind, "K536": _padded})
_RULES = told_conditions(NAME, _FINDERS)
OF_PAIRS = tuple(_FINDERS)
"""Ids of the rules."""


def discord(problem: Problem, forward: KernelSpec, backward: KernelSpec) -> Sequence[Reason]:
    """Implements ``Upstream.discord``."""
    before = Before(problem, forward)
    return [reason for rule in _RULES if (reason := rule.against(before, backward))]
