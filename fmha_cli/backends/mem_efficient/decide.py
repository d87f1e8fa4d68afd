"""Decide which kernels serve a problem, upstream's choice first, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fmha_cli.backends.cuda.choosing import indexes, nearest_hdim
from fmha_cli.backends.gpu.conditions import BACKWARD, FORWARD
from fmha_cli.backends.gpu.index import Candidate, decisions, families_for
from fmha_cli.backends.mem_efficient.catalogue import NAME, kernels
from fmha_cli.backends.mem_efficient.problem_rules import CONDITIONS, no_kernels
from fmha_cli.backends.mem_efficient.scratch import storage_of
from fmha_cli.backends.mem_efficient.situation import Situation, situation_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import LEFTPAD_CORE_RULES


def _kernels(arch: str, family: Family) -> Iterable[KernelSpec]:
    return (kernel for kernel in kernels(load_arch(arch)) if kernel.family is family)


family_index = indexes(_kernels, CONDITIONS, LEFTPAD_CORE_RULES)


def decide(problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
    """A decision about every kernel of the problem's direction, for the device's architectures.

    Upstream takes the first kernel of its order that fits. The ``rank`` of a supported kernel: the place of its architecture
    among the device's; 1 if upstream's host would pass over it because of the strides of heads, so that the host must pad
    them first, else 0; its place in upstream's order.
    """
    s = situation_of(problem, device)
    tried = (
        (family_index(arch, family), partial(_supported, s, place))
        for place, arch in enumerate(device.archs)
        for family in families_for(problem, FORWARD, BACKWARD)
    )
    return decisions(s, NAME, tried, nearest_hdim, no_kernels)


def _supported(s: Situation, place: int, candidate: Candidate) -> Supported:
    p, m = s.problem, storage_of(s.problem, candidate.kernel)
    # Upstream tests the strides of heads alone, and in a forward pass not V's, whose alignment it takes to be 1.
    strides = [s.plain_strides(name)[1] for name in ("qk" if m.traits.forward else "qkv")]
    odd = any(stride % m.traits.tested for stride in strides)
    why = "upstream takes the first in its order that fits"
    if odd:
        why = f"upstream would pass over it: strides of heads {strides} are not multiples of {m.traits.tested}"
    why += "" if m.hdims == (p.hdim, p.hdim_v) else f"; the host pads head dims to {m.hdims[0]} and {m.hdims[1]}"
    return Supported(candidate.kernel, (place, int(odd), candidate.position), f"{m.traits.name}: {why}")
