"""``UpstreamBackend``: the answers of an ``Upstream`` as a backend, whatever the vendor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from fmha_cli.backends.gpu.devices import report_undriven
from fmha_cli.backends.gpu.upstream import Upstream
from fmha_cli.domain.arch import ArchSpec, arch_names, load_arch
from fmha_cli.domain.decision import Decision
from fmha_cli.domain.device import Availability, DeviceFacts
from fmha_cli.domain.invariance import Invariance
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Rule

U = TypeVar("U", bound=Upstream)


class UpstreamBackend(Generic[U]):
    """See ``fmha_cli.domain.protocols.Backend`` and ``domain.invariance.Promising`` for the contract of the methods. A vendor's backend derives from it, builds, and opens sessions.

    Args:
        upstream: the project whose kernels the backend offers.
        driven: whether the machine may have a driver of the vendor.
    """

    automatic = True
    vendor: str
    runtimes: tuple[str, ...]
    node: Path
    _ask_driver: Callable[[], Availability]

    def __init__(self, upstream: U, driven: bool) -> None:
        self.upstream = upstream
        self.name, self.algorithm = upstream.name, upstream.algorithm
        self.dropout_stream, self.home_option = upstream.dropout_stream, upstream.home_option
        self._driven = driven
        self.probes_in_parent = not driven  # without a driver there is nothing to open

    def probe(self) -> Availability:
        return self._ask_driver() if self._driven else report_undriven(self.vendor, self.node)

    def archs(self) -> tuple[str, ...]:
        return tuple(name for name in arch_names() if self.name in load_arch(name).backends)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.upstream.kernels(arch)

    def refusals(self, kernel: KernelSpec) -> tuple[Reason, ...]:
        return self.upstream.refusals(kernel)

    def rules(self) -> tuple[Rule, ...]:
        return self.upstream.rules()

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterable[Decision]:
        return self.upstream.passes().decide(problem, device)

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return self.upstream.passes().plan(problem, kernel, device)

    def promises(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> frozenset[Invariance] | None:
        return self.upstream.promises(problem, kernel, device)

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return self.upstream.upstream_name(kernel)
