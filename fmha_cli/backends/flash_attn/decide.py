"""Decide which kernels serve a problem, upstream's choice first, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fmha_cli.backends.flash_attn.catalogue import family_kernels
from fmha_cli.backends.flash_attn.compiled_for import SHARED_RULES
from fmha_cli.backends.flash_attn.problem_rules import CONDITIONS, EVEN, OWN_ARCH, SPLITS, no_kernels
from fmha_cli.backends.flash_attn.signatures import NAME
from fmha_cli.backends.flash_attn.situation import FlashSituation, situation_of
from fmha_cli.backends.gpu.choosing import indexes, nearest_hdim
from fmha_cli.backends.gpu.conditions import BACKWARD, FORWARD
from fmha_cli.backends.gpu.index import (
    IndexedKernel,
    decisions,
    families_for,
)
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.signature import Need

_HOST = "FlashAttention-2's host code"


def decide(problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
    """A decision about every main-stage kernel of the problem's direction, for the device's architectures.

    The ``rank`` of a supported kernel has four numbers:

    - 0 for upstream's choice, else 1;
    - the place of the kernel's architecture in the order of preference;
    - 0 for the family that upstream calls, else 1;
    - how many steps the kernel is more general than the sizes need.

    When upstream serves the problem, exactly one kernel has rank (0, 0, 0, 0). Refused kernels come nearest case first.
    """
    s = situation_of(problem, device)
    families = families_for(problem, FORWARD, BACKWARD)
    preferred = sorted(families, key=lambda family: family is not upstreams_family(s))
    tried = (
        (family_index(arch, family), partial(_rank_fitting, s, place))
        for place, arch in enumerate(in_order(device.archs))
        for family in preferred
    )
    return decisions(s, NAME, tried, nearest_hdim, no_kernels)


def _kernels(arch: str, family: Family) -> Iterable[KernelSpec]:

    return family_kernels(load_arch(arch), family)


family_index = indexes(_kernels, CONDITIONS, SHARED_RULES)


def in_order(archs: Iterable[str]) -> list[str]:
    """A device's architectures in FlashAttention's order of preference: the device's own, but sm_90 before sm_90a."""
    order = {arch.rstrip("abcdef"): place for place, arch in reversed(list(enumerate(archs)))}
    return sorted(archs, key=lambda arch: (order[arch.rstrip("abcdef")], arch))


def upstreams_family(s: FlashSituation) -> Family:
    """The family that upstream's host calls (``run_mha_fwd``, ``run_mha_bwd``)."""
    if s.api.backward:
        return Family.BWD_DQ_DK_DV
    return Family.FWD_SPLITKV if s.forced or s.splits.count > 1 else Family.FWD


def _rank_fitting(s: FlashSituation, place: int, candidate: IndexedKernel) -> Supported:
    kernel = candidate.kernel
    family, steps = kernel.family is not upstreams_family(s) or _splits_less(s, kernel), _spare(s, kernel)
    why = [
        f"{SPLITS}: {s.api.value} calls {upstreams_family(s).value} ({_splitting(s)})" if family else "",
        f"{EVEN}: the sizes are even" if steps else "",
        f"{OWN_ARCH}: {kernel.arch} is not the first choice of the device's architectures" if place else "",
    ]
    late = ", ".join(filter(None, why))
    rank = (int(bool(late)), place, int(family), steps)
    place_of = f"not what {_HOST} takes: {late}" if late else f"{_HOST} takes it: {s.api.value}, {_splitting(s)}"
    return Supported(kernel, rank, f"{place_of}{noted(kernel, s.problem)}")


def _splits_less(s: FlashSituation, kernel: KernelSpec) -> bool:
    """Whether the kernel does not split keys where upstream would."""
    return s.splits.count > 1 and kernel.signature.split is Need.NO and not s.api.backward


def _splitting(s: FlashSituation) -> str:
    if s.api.backward:
        return "deterministic" if s.problem.deterministic else "in no fixed order of sums"
    return f"{s.splits.count} split{'s' if s.splits.count > 1 else ''}: {s.splits.why}"


def _spare(s: FlashSituation, kernel: KernelSpec) -> int:
    """How many steps a kernel is more general than the one that the launch templates pick: 0, 1 or 2."""
    a = algorithm_of(kernel)
    return int(s.takes_even_mn(a.tile) and not a.even_mn) + int(s.takes_even_k and not a.even_k)
