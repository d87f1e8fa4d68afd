"""The common part of backends whose kernels come from an installed package: nothing is compiled, and the package's
version is looked up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from fmha_cli.domain.decision import Decision, Supported, Unsupported
from fmha_cli.domain.device import Availability, DeviceFacts, State
from fmha_cli.domain.installation import Checker, CheckState, DoctorCheck, Surroundings
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.domain.rules import Refusal, Rule, reasons_against


class FrameworkBackend:
    """The members of a Backend that follow from that. A subclass has the others.

    ``auto`` does not choose it, and it has no dropout, for which a stream must be named.
    """

    name = ""
    dropout_stream = "fmha"
    automatic = False
    distribution = ""
    """The package of the library; what ``pip install`` takes."""
    tried: Sequence[str] = ()
    """The releases with which its rules were compared with the library's own answers, the oldest first."""

    def checkers(self) -> Sequence[Checker]:
        """``fmha doctor`` says whether the installed release is one of the tried ones, or between them."""
        return (partial(check_release, self.distribution, tuple(self.tried)),) if self.tried else ()

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
    """OK with the version of an installed distribution, and no devices yet; MISSING, with the package to install,
    without one or with one older than ``least``. The package is not imported.
    """
    help = f'pip install "{name}>={least}"' if least else f"pip install {name}"
    found = find_release(name)
    if found is None:
        return Availability(state=State.MISSING, why=f"{name} is not installed", help=help)
    if numbers_of(found) < numbers_of(least):
        why = f"{name} {found} is older than {least}"
        return Availability(state=State.MISSING, why=why, help=help, version=found)
    return Availability(state=State.OK, version=found)


def find_release(distribution: str) -> str | None:
    """The installed release of a library, which is not imported; None without one."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def release_refusal(distribution: str, facts: Iterable[Mapping[str, str]], cases: Mapping[str, bool]) -> Refusal | None:
    """How the installed release of a library computes differently from the release that the rules were written for.

    Args:
        facts: ``{"before": the release that ended it, "case", "text": the behaviour of older ones}``.
        cases: of each fact's case, whether the problem is one.
    """
    here = find_release(distribution)
    for fact in facts:
        if here is not None and numbers_of(here) < numbers_of(fact["before"]) and cases[fact["case"]]:
            hint = f'pip install "{distribution}>={fact["before"]}"'
            return Refusal(f"{distribution} {here} {fact['text']}", hint)
    return None


def check_release(distribution: str, tried: Sequence[str], surroundings: Surroundings) -> Iterator[DoctorCheck]:
    """Whether the installed release of a library is in the range with which the rules were tried; nothing without the library."""
    here = find_release(distribution)
    if here is None:
        return
    least, most = tried[0], tried[-1]
    known = numbers_of(least) <= numbers_of(here) <= numbers_of(most)
    yield DoctorCheck(
        name="library",
        subject=distribution,
        state=CheckState.OK if known else CheckState.WARNING,
        what=f"{here}; the rules were tried with {least} to {most}",
        why=None if known else "what explain says of another release is what was true of these",
        help=None if known else f'pip install "{distribution}>={least},<={most}"',
    )


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set unset variables for a package that reads them while it is imported; afterwards they are removed again, for
    other packages of the process.
    """
    new = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def numbers_of(text: str) -> tuple[int, ...]:
    """The release numbers of a version, without the part from ``+`` on."""
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])
