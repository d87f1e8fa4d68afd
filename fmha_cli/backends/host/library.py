"""``LibraryBackend``: a backend of a Python library that compiles for itself. Its rules decide in the parent, where the library is not
imported; its session imports it in the worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import CPU, Availability, DeviceFacts, State
from fmha_cli.domain.kernel import Algorithm, KernelSpec
from fmha_cli.domain.plan import Artifact, Plan, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext, Session
from fmha_cli.domain.rules import Check, Rule, Severity, reasons_against
from fmha_cli.toolchain.kernels import no_build, no_build_key

ARCH = "generic"
"""The architecture of its kernels: the library chooses instructions itself."""


@dataclass(kw_only=True)
class LibraryBackend:
    """A backend of one library on the CPU.

    Attributes:
        distribution: the package of the library; what ``pip install`` takes.
        listed: every kernel for an architecture, the one that is taken first in front.
        table: all rules.
        session: ``module:class`` of the session, which the worker alone imports.
    """

    name: str
    distribution: str
    algorithm: type[Algorithm]
    listed: Callable[[str], Iterable[KernelSpec]]
    table: tuple[Rule, ...]
    session: str
    dropout_stream: str = "fmha"
    probes_in_parent: bool = True
    automatic: bool = False

    def probe(self) -> Availability:
        """Whether the library is installed. It is not imported, so this says nothing about whether it works."""
        try:
            found = version(self.distribution)
        except PackageNotFoundError:
            why, help = f"{self.distribution} is not installed", f"pip install {self.distribution}"
            return Availability(state=State.MISSING, why=why, help=help)
        return Availability(state=State.OK, devices=(DeviceFacts(id=CPU, archs=self.archs()),), version=found)

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def kernels(self, arch: ArchSpec) -> Iterable[KernelSpec]:
        return self.listed(arch.name)

    def rules(self) -> tuple[Rule, ...]:
        return self.table

    def decide(self, problem: Problem, device: DeviceFacts) -> Iterator[Decision]:
        """One decision for each kernel; their order is their rank."""
        for rank, kernel in enumerate(self.kernels(load_arch(ARCH))):
            reasons = tuple(reasons_against(self.table, problem, kernel, device))
            yield Unsupported(self.name, kernel.arch, kernel, reasons) if reasons else Supported(kernel, (rank,))

    def plan(self, problem: Problem, kernel: KernelSpec, device: DeviceFacts) -> Plan:
        return Plan(problem, (Stage(kernel),))

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        return no_build(stage, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        return no_build_key(stage)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return None

    def open(self, device: DeviceFacts) -> Session:
        module, _, name = self.session.partition(":")
        opened: Session = getattr(import_module(module), name)()
        return opened


def rules_from(text: str, checks: Mapping[str, Check]) -> tuple[Rule, ...]:
    """The rules whose texts are in a JSON text: ``{"rules": [{"id", "text", "help", "source", "severity"}]}``.

    Args:
        checks: of every rule, by its id.

    Raises:
        ValueError: a rule without a check, or a check without a rule.
    """
    rows: Sequence[Mapping[str, str]] = json.loads(text)["rules"]
    if {row["id"] for row in rows} != set(checks):
        raise ValueError(f"rules {[row['id'] for row in rows]}, checks {list(checks)}")
    return tuple(
        Rule(
            row["id"],
            row["text"],
            checks[row["id"]],
            row["help"],
            row["source"],
            Severity[row.get("severity", "kind").upper()],
        )
        for row in rows
    )
