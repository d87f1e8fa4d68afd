"""Which kernels serve a problem, upstream's choice first, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fmha_cli.backends.flash_attn.candidates import FamilyIndex, family_index
from fmha_cli.backends.flash_attn.condition import BACKWARD, FORWARD
from fmha_cli.backends.flash_attn.evenness import even_k, even_mn
from fmha_cli.backends.flash_attn.problem_rules import no_kernels
from fmha_cli.backends.flash_attn.signatures import MAIN, NAME
from fmha_cli.backends.flash_attn.situation import Situation, situation_of
from fmha_cli.codegen.flash_attn.traits import algorithm_of
from fmha_cli.decision import Decision, Supported, Unsupported
from fmha_cli.device import DeviceFacts
from fmha_cli.features import Direction
from fmha_cli.kernel import Family, KernelSpec
from fmha_cli.problem import Problem
from fmha_cli.signature import Need


def decide(problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
    """Every main-stage kernel of the device's architectures that a problem of this direction could mean.

    ``rank`` is (0 for what upstream takes and 1 otherwise, place of the architecture, 0 for the family that upstream
    calls, steps by which the kernel is more general than the sizes): exactly one kernel has rank (0, 0, 0, 0) when
    upstream serves the problem. Refused kernels come nearest case first.
    """
    found = False
    situation = situation_of(problem, device)
    for place, arch in enumerate(in_order(device.archs)):
        for family in sorted(families_for(problem), key=lambda family: family is not upstreams_family(situation)):
            index = family_index(arch, family)
            if index.cases:
                found = True
                yield from _decided(situation, index, place)
    if not found:
        yield Unsupported(NAME, device.archs[0] if device.archs else "", None, (no_kernels(device),))


def in_order(archs: Iterable[str]) -> list[str]:
    """A device's architectures as FlashAttention prefers them: in their order, but sm_90 before sm_90a."""
    order = {arch.rstrip("abcdef"): place for place, arch in reversed(list(enumerate(archs)))}
    return sorted(archs, key=lambda arch: (order[arch.rstrip("abcdef")], arch))


def families_for(problem: Problem) -> tuple[Family, ...]:
    """Families whose kernels are candidates for the direction."""
    return {Direction.FWD: FORWARD, Direction.BWD: BACKWARD}.get(problem.direction, MAIN)


def upstreams_family(s: Situation) -> Family:
    """The family that upstream's host calls (``run_mha_fwd``, ``run_mha_bwd``)."""
    if s.api.backward:
        return Family.BWD_DQ_DK_DV
    return Family.FWD_SPLITKV if s.forced or s.splits.count > 1 else Family.FWD


def _decided(s: Situation, index: FamilyIndex, place: int) -> Iterator[Decision]:
    answers = index.answers(s)
    for case in sorted(index.cases, key=lambda case: case.distance(s.problem)):
        for candidate in case.candidates:
            reasons = tuple(r for r in [answers[n] for n in candidate.questions] if r is not None)
            kernel = candidate.kernel
            if reasons:
                yield Unsupported(NAME, kernel.arch, kernel, reasons)
            else:
                yield _supported(s, kernel, place)


def _supported(s: Situation, kernel: KernelSpec, place: int) -> Supported:
    family, steps = kernel.family is not upstreams_family(s) or _splits_less(s, kernel), _spare(s, kernel)
    why = [
        f"K470: {s.api.value} calls {upstreams_family(s).value} ({_splitting(s)})" if family else "",
        "K471: the sizes are even" if steps else "",
        f"K472: {kernel.arch} is not the first choice of the device's architectures" if place else "",
    ]
    late = ", ".join(filter(None, why))
    rank = (int(bool(late)), place, int(family), steps)
    if late:
        return Supported(kernel, rank, f"not what upstream takes: {late}")
    return Supported(kernel, rank, f"upstream's choice: {s.api.value}, {_splitting(s)}")


def _splits_less(s: Situation, kernel: KernelSpec) -> bool:
    """A split-KV kernel that does not split where upstream would."""
    return s.splits.count > 1 and kernel.signature.split is Need.NO and not s.api.backward


def _splitting(s: Situation) -> str:
    if s.api.backward:
        return "deterministic" if s.problem.deterministic else "in no fixed order of sums"
    return f"{s.splits.count} split{'s' if s.splits.count > 1 else ''}: {s.splits.why}"


def _spare(s: Situation, kernel: KernelSpec) -> int:
    """Steps by which a kernel is more general than the one that the launch templates pick: 0, 1 or 2."""
    a = algorithm_of(kernel)
    return int(even_mn(s, a.tile) and not a.even_mn) + int(even_k(s) and not a.even_k)
