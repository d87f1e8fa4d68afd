"""The state of a machine besides its devices: the checks of ``fmha doctor`` and the sources of kernels.

A backend that needs its own compilers or sources implements ``Doctored`` or ``Sourced``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

from fmha_cli.domain.errors import EnvironmentProblem, FmhaError
from fmha_cli.domain.members import Count, Sha256
from fmha_cli.domain.plan import Edited
from fmha_cli.domain.wording import edited_text


class CheckState(StrEnum):
    """The result of one check of ``fmha doctor``."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class DoctorCheck:
    """One check of ``fmha doctor``.

    Attributes:
        name: the kind of check (``compiler``).
        subject: the subject of the check.
        why: the cause, if the outcome is not OK.
        help: the remedy, if the outcome is not OK.
        time_ns: nanoseconds that the check took; None if nothing was run.
    """

    name: str
    subject: str
    state: CheckState
    what: Annotated[str, "the finding in a line"]
    why: str | None = None
    help: str | None = None
    time_ns: Count | None = None

    @staticmethod
    def failed(name: str, subject: str, error: FmhaError) -> DoctorCheck:
        """The check that reports an error."""
        return DoctorCheck(
            name=name, subject=subject, state=CheckState.FAILED, what=error.what, why=error.why, help=error.help
        )


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where a backend looks when it checks a machine. The backend fetches and builds nothing.

    Attributes:
        cache_root: root of the build cache.
        environ: environment variables.
        options: the backends' own options that the user gave, by flag name (``ck-home``).
        notify: takes one line of detail for people.
    """

    cache_root: Path
    environ: Mapping[str, str]
    options: Mapping[str, str]
    notify: Callable[[str], None]


Checker = Callable[[Surroundings], Iterable[DoctorCheck]]


@runtime_checkable
class Doctored(Protocol):
    """A backend with its own checks for ``fmha doctor``."""

    def checkers(self) -> Sequence[Checker]:
        """The checks, in the order of the report. A function that several backends list runs once."""


class SourceState(StrEnum):
    """The state of a source tree on this machine."""

    PRESENT = "present"
    MISSING = "missing"
    DAMAGED = "damaged"
    UNFIT = "unfit"
    """It is present, but nothing can be built against it."""


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """The tree of sources that a backend would build against now.

    Attributes:
        origin: why this tree is used: an option, an installation, or the pinned source.
        include: the folder of its headers.
        revision: name of its revision, or of the one by whose rules it is built.
        edited: its differences from that revision; None without any.
        why: the cause, if the tree cannot be used.
        help: the remedy, if the tree cannot be used.
    """

    state: SourceState
    origin: str | None = None
    include: str | None = None
    revision: str | None = None
    digest: Annotated[Sha256 | None, "of the headers' text"] = None
    edited: Edited | None = None
    why: str | None = None
    help: str | None = None
    notes: Annotated[tuple[str, ...], "what was passed over, and what is odd"] = ()

    @staticmethod
    def unfit(error: EnvironmentProblem) -> SourceTree:
        """A tree of the user that cannot be built against."""
        return SourceTree(state=SourceState.UNFIT, why=f"{error.what} ({error.why})", help=error.help)

    def check(self, subject: str) -> DoctorCheck:
        """Its row of ``fmha doctor``. A tree that is missing but can be fetched is not a failure."""
        states = {SourceState.PRESENT: CheckState.OK, SourceState.MISSING: CheckState.SKIPPED}
        state, why = states.get(self.state, CheckState.FAILED), self.why or "; ".join(self.notes) or None
        return DoctorCheck(name="source", subject=subject, state=state, what=self.text, why=why, help=self.help)

    @property
    def text(self) -> str:
        """``baseline, edited (3 files differ), from --ck-home DIR``, or the state of a tree that cannot be used."""
        if self.include is None or self.revision is None:
            return self.state.value
        return f"{self.revision if self.edited is None else edited_text(self.edited) + ','} from {self.origin}"


NO_DEVICE_HERE = "no device here"
"""What ``fmha doctor`` finds about a backend that lacks nothing but a device."""
NOT_FETCHED = "not fetched yet; the first build fetches it"
"""Why a pinned source is missing where nothing is wrong."""


@runtime_checkable
class Sourced(Protocol):
    """A backend that builds against a tree of sources, which the user may replace.

    Attributes:
        home_option: name of the option that names the user's tree, and of its entry in ``BuildContext.options``; None if
            its sources cannot be replaced.
    """

    home_option: str | None

    def home_files(self, home: str) -> Mapping[str, Path]:
        """The files of a user's tree that kernels can include, by their names in it.

        Raises:
            EnvironmentProblem: the folder holds no such tree, or cannot be read.
        """

    def source_tree(self, surroundings: Surroundings) -> SourceTree:
        """The tree that builds would use now. This fetches nothing."""


def import_modules(modules: Sequence[str], package: str, code: str, help: str) -> tuple[Any, ...]:
    """The modules of a package that only some commands need.

    Raises:
        EnvironmentProblem: with the given code and help, the package is not installed or does not import.
    """
    try:
        return tuple(importlib.import_module(module) for module in modules)
    except (ImportError, RuntimeError) as fault:
        absent = isinstance(fault, ModuleNotFoundError)
        raise EnvironmentProblem(
            f"{package} is not installed" if absent else f"{package} does not import",
            code=code,
            where=package,
            why=str(fault),
            help=help,
        ) from fault
