"""What backends share whose kernels come from an installed package: nothing is compiled, and the package's version is looked up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import Rule, reasons_against


class FrameworkBackend:
    """The members of a Backend that follow from that. A subclass has the others.

    ``auto`` does not choose it, and it has no dropout, for which a stream must be named.
    """

    name = ""
    dropout_stream = "fmha"
    automatic = False

    def build(self, stage: Stage, context: BuildContext) -> Artifact:
        from fmha_cli.toolchain.kernels import no_build

        return no_build(stage, context)

    def cache_key(self, stage: Stage, context: BuildContext) -> object:
        from fmha_cli.toolchain.kernels import no_build_key

        return no_build_key(stage)

    def inspect(self, kernel: KernelSpec, artifact: Artifact) -> dict[str, object]:
        return {}

    def upstream_name(self, kernel: KernelSpec) -> str | None:
        return None

    def ranked(
        self,
        kernels: Iterable[KernelSpec],
        rules: tuple[Rule, ...],
        problem: Problem,
        device: DeviceFacts,
        note: str = "",
    ) -> Iterator[Decision]:
        """A decision about each kernel by the rules; the kernels come in the order in which they are preferred, and ``note``
        says why."""
        for place, kernel in enumerate(kernels):
            reasons = tuple(reasons_against(rules, problem, kernel, device))
            refused = Unsupported(self.name, kernel.arch, kernel, reasons) if reasons else None
            yield refused or Supported(kernel, (place,), note)


def probe_package(name: str, least: str = "") -> Availability:
    """OK with the version of an installed distribution, and no devices yet; MISSING, with what to install, without one or with
    one older than ``least``. The package is not imported."""
    help = f'pip install "{name}>={least}"' if least else f"pip install {name}"
    try:
        found = version(name)
    except PackageNotFoundError:
        return Availability(state=State.MISSING, why=f"{name} is not installed", help=help)
    if _numbers(found) < _numbers(least):
        why = f"{name} {found} is older than {least}"
        return Availability(state=State.MISSING, why=why, help=help, version=found)
    return Availability(state=State.OK, version=found)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables that nobody has set, for a package that reads them while it is imported; afterwards they are gone again,
    for what else the process loads."""
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _numbers(text: str) -> tuple[int, ...]:
    """The release numbers of a version, without what follows ``+``."""
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])
