"""The error tree: one class per exit code of the command line.

Every error states what is wrong, where, why, and what to do. ``render()`` gives the text that ``cli``
prints; no other room prints or exits.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the command line. ``docs/reference/verdicts.md`` is made from the text under each."""

    OK = 0
    """Everything that was requested is good."""
    WRONG = 1
    """A result is wrong or not to be trusted, a run is slower, or upstream's program disagrees."""
    USAGE = 2
    """A bad flag, a name that does not exist, an impossible problem, or a file that cannot be read."""
    UNSUPPORTED = 3
    """No backend supports the problem. In a sweep this counts only if it is true of every row."""
    ENVIRONMENT = 4
    """This machine lacks a device, a compiler or sources, or an output cannot be written."""
    EMPTY = 5
    """The selection is empty. The message names the term that excluded everything."""
    FAILED = 6
    """A kernel did not build or launch, crashed, hung, or ran out of memory. One row is enough."""
    INTERNAL = 70
    """An error in ``fmha`` itself. The message holds the details for a bug report."""
    INTERRUPTED = 130
    """You interrupted the run. ``--resume JOURNAL`` continues it."""


class FmhaError(Exception):
    """Base of all expected errors.

    Args:
        what: one line that states the fault, with the values.
        code: the id of the rule or error (``P003``, ``K012``, ``X040``), which is shown in brackets.
        where: the flag, file or kernel concerned.
        why: the rule or the cause behind it, shown as the one or the other.
        help: the remedy.
    """

    exit_code: ExitCode = ExitCode.INTERNAL

    def __init__(
        self,
        what: str,
        *,
        code: str = "E000",
        where: str | None = None,
        why: str | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.code = code
        self.where = where
        self.why = why
        self.help = help

    def render(self) -> str:
        """The error as text: ``error[CODE]: what``, then one indented line for each further part."""
        lines = [f"error[{self.code}]: {self.what}"]
        lines += [f"  --> {self.where}"] if self.where else []
        lines += [f"  = {self._reason}: {self.why}"] if self.why else []
        lines += [f"  = help: {self.help}"] if self.help else []
        return "\n".join(lines)

    @property
    def in_one_line(self) -> str:
        """The fault, and its cause if known."""
        return f"{self.what}: {self.why}" if self.why else self.what

    @property
    def _reason(self) -> str:
        """The kind of ``why``: a rule of the product, or a message of another program, the system or a library."""
        foreign = self.__cause__ is not None and not isinstance(self.__cause__, FmhaError)
        return "cause" if foreign or isinstance(self, _OF_THE_MACHINE) else "rule"


class UsageError(FmhaError):
    """A bad flag, a name that does not exist, an unreadable file (exit 2)."""

    exit_code = ExitCode.USAGE


class ImpossibleProblem(UsageError):
    """A problem that is mathematically undefined or contradicts itself (exit 2)."""


class UnsupportedError(FmhaError):
    """No backend supports the problem or kernel (exit 3)."""

    exit_code = ExitCode.UNSUPPORTED


class EnvironmentProblem(FmhaError):
    """A missing device, compiler or source tree, a broken plugin that was named (exit 4)."""

    exit_code = ExitCode.ENVIRONMENT


def no_home(help: str) -> EnvironmentProblem:
    """X042: the system names no home for this user, whose folders are below it. Containers run such users."""
    what = "the home of this user is unknown"
    return EnvironmentProblem(
        what, code="X042", where="HOME", why="it is not set, and the system knows none", help=help
    )


class EmptySelection(FmhaError):
    """A filter or profile that matches nothing (exit 5)."""

    exit_code = ExitCode.EMPTY


class KernelFailure(FmhaError):
    """A kernel that did not build, launch or survive (exit 6)."""

    exit_code = ExitCode.FAILED


class DeviceLost(KernelFailure):
    """A kernel ruined its device's context, so all further calls of this process to the device fail.

    A session may raise it wherever it may raise ``KernelFailure``. The worker replies with it and ends. The row is
    CRASHED, and the next row gets a fresh worker.
    """


class InternalError(FmhaError):
    """A broken promise inside ``fmha`` itself (exit 70)."""

    exit_code = ExitCode.INTERNAL


class Interrupted(FmhaError):
    """The user stopped the run (exit 130)."""

    exit_code = ExitCode.INTERRUPTED


_OF_THE_MACHINE = (EnvironmentProblem, KernelFailure, InternalError)
"""Errors that no rule of the product decides."""
