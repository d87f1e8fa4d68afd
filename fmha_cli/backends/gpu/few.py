"""``Few``: the rules and decisions of a backend whose project names each of its kernels and takes the first that fits.

A kernel exists if it is in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Generic, TypeVar

from fmha_cli.backends.gpu.choosing import indexes, nearest_hdim
from fmha_cli.backends.gpu.conditions import (
    BACKWARD,
    FORWARD,
    MAIN,
    Condition,
    KernelCheck,
    KernelRules,
    known_arch,
)
from fmha_cli.backends.gpu.index import FamilyIndex, IndexedKernel, IndexHost, decisions, families_for
from fmha_cli.backends.gpu.known_bad import noted
from fmha_cli.backends.gpu.listed import listed_rules
from fmha_cli.backends.gpu.rule_rows import unchecked_rules
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.decision import Decision, Supported
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule, Severity, core_rules

H = TypeVar("H", bound=IndexHost)
Kernels = Callable[[ArchSpec], Iterable[KernelSpec]]


def in_order(situation: IndexHost, place: int, candidate: IndexedKernel) -> Supported:
    """A kernel that fits, ranked by the place of its architecture among the device's, then by its place in the list."""
    return Supported(candidate.kernel, (place, candidate.position), noted(candidate.kernel, situation.problem))


@dataclass(frozen=True, eq=False)
class Few(Generic[H]):
    """The kernels of a backend, and their needs of a problem.

    Attributes:
        backend: its name.
        kernels: returns the kernels that can be built for an architecture whose facts name the backend, in the project's
            order.
        ids: of two rules in the backend's table: there are kernels for the architecture (``form``), and the list has the
            kernel (which reads ``*``).
        situation_of: returns the situation of a problem on a device.
        conditions: what the kernels need in addition to the core's rules.
        replaced: ids of the core's rules that do not apply, or that the conditions replace.
        unchecked: ids of rules that refuse nothing.
        listed: returns its kernels whether or not they can be built, if those are others.
        more: further rules about kernels, by id.
        supported: returns the decision about a kernel that fits: of a situation, the place of the kernel's architecture
            among the device's, and the kernel.
    """

    backend: str
    kernels: Kernels
    ids: tuple[str, str]
    situation_of: Callable[[Problem, DeviceFacts], H]
    conditions: tuple[Condition[H], ...]
    replaced: Collection[str] = ()
    unchecked: Collection[str] = ()
    listed: Kernels | None = None
    more: Mapping[str, KernelCheck] = field(default_factory=dict)
    supported: Callable[[H, int, IndexedKernel], Supported] = in_order

    def of(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        """The kernels that can be built for an architecture. There may be none."""
        return self.kernels(arch) if self.backend in arch.backends else ()

    @cached_property
    def kernel_rules(self) -> KernelRules:
        return listed_rules(self.backend, *self.ids, self.listed or self.kernels, self.more)

    @cached_property
    def problem_rules(self) -> tuple[Rule, ...]:
        """What every kernel must meet, and the rules that refuse nothing."""
        own = (condition.rule(self.situation_of) for condition in self.conditions)
        return (*own, *self._core, *unchecked_rules(self.backend, self.unchecked))

    @cached_property
    def _core(self) -> tuple[Rule, ...]:
        return core_rules(*self.replaced)

    @cached_property
    def index(self) -> Callable[[str, Family], FamilyIndex[H]]:
        """Returns the index of a family's kernels for an architecture. It is empty where there are none."""
        return indexes(self._family, self.conditions, self._core)

    def _family(self, arch: str, family: Family) -> Iterable[KernelSpec]:
        facts = known_arch(arch)
        return (kernel for kernel in self.of(facts) if kernel.family is family) if facts else ()

    def decisions(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        """The decision about every kernel for the device's architectures and, if there are any, the problem's direction."""
        situation, families = self.situation_of(problem, device), families_for(problem, FORWARD, BACKWARD)
        if not any(self.index(arch, family).cases for arch in device.archs for family in families):
            families = MAIN
        tried = (
            (self.index(arch, family), partial(self.supported, situation, place))
            for place, arch in enumerate(device.archs)
            for family in families
        )
        return decisions(situation, self.backend, tried, nearest_hdim, self._nothing)

    def _nothing(self, device: DeviceFacts) -> Reason:
        """The Reason for a device without kernels that can be built."""
        archs = (arch for arch in map(known_arch, device.archs) if arch is not None and self.backend in arch.backends)
        for kernel in (kernel for arch in archs for kernel in (self.listed or self.kernels)(arch)):
            return self.kernel_rules.refusals(kernel)[0]
        text = f"{self.backend} has no kernels for {', '.join(device.archs) or 'this device'}"
        return Reason(self.ids[0], text, "fmha archs", Severity.PLACE)
