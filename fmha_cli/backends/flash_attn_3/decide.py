"""Decide which kernels serve a problem, upstream's choice first, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fmha_cli.backends.flash_attn_3.catalogue import family_kernels
from fmha_cli.backends.flash_attn_3.problem_rules import CONDITIONS, ORDER, SHARED_RULES, no_kernels
from fmha_cli.backends.flash_attn_3.situation import Fa3Situation, situation_of
from fmha_cli.backends.gpu.choosing import indexes, nearest_hdim
from fmha_cli.backends.gpu.conditions import BACKWARD
from fmha_cli.backends.gpu.index import IndexedKernel, decisions, families_for
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.codegen.flash_attn_3.facts import NAME
from fmha_cli.codegen.flash_attn_3.instance import algorithm_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem

FORWARD = (Family.FWD, Family.FWD_SPLITKV)


def decide(problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
    """A decision about every main kernel of the problem's direction, for the device's architectures.

    The ``rank`` of a supported kernel: 0 for upstream's choice, else 1; the place of the kernel's architecture among the
    device's; in how many template arguments it differs from upstream's choice.
    """
    s = situation_of(problem, device)
    families = sorted(families_for(problem, FORWARD, BACKWARD), key=lambda family: (family is Family.FWD) == s.split)
    tried = (
        (family_index(arch, family), partial(_rank_fitting, s, place))
        for place, arch in enumerate(device.archs)
        for family in families
    )
    return decisions(s, NAME, tried, nearest_hdim, no_kernels)


def _kernels(arch: str, family: Family) -> Iterable[KernelSpec]:
    return family_kernels(arch, family) if NAME in load_arch(arch).backends else ()


family_index = indexes(_kernels, CONDITIONS, SHARED_RULES)


def _rank_fitting(s: Fa3Situation, place: int, candidate: IndexedKernel) -> Supported:
    kernel, a = candidate.kernel, algorithm_of(candidate.kernel)
    compared = (
        ("cluster", a.cluster, s.cluster),
        ("pack_gqa", a.pack_gqa, s.pack_gqa),
        ("fixed_order", a.fixed_order, s.fixed_order),
    )
    other = [f"{name} {field_text(want)}" for name, have, want in compared if have != want]
    taken = f"FlashAttention-3's host code takes it: {_words(s)}"
    why = f"{ORDER}: FlashAttention-3's host code takes {', '.join(other)}" if other else taken
    return Supported(kernel, (int(bool(other)), place, len(other)), f"{why}{noted(kernel, s.problem)}")


def field_text(value: object) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _words(s: Fa3Situation) -> str:
    if s.problem.direction.backward:
        return f"sums {'in a fixed order' if s.fixed_order else 'by atomics'}"
    packed = "query heads of a key head packed" if s.pack_gqa else "query heads apart"
    second = f", scores of {s.hdim} columns of q * k and {s.problem.hdim_v} of q_v * v" if s.qv else ""
    return f"{s.splits.count} split{'s' if s.split else ''} ({s.splits.why}), {packed}, clusters of {s.cluster}{second}"
