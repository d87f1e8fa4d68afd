"""A backend's support for its project's own programs, which ``fmha parity`` compares with this tool.

A project has one program for the forward pass and one for the backward pass. ``UpstreamCase`` is one run of a program, and
``Mapped`` is the same case for this tool. ``Ran`` holds the system's observations of a run, and ``Reading`` its
meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext


class Program(StrEnum):
    """The two programs of a project."""

    FWD = "fwd"
    BWD = "bwd"


@dataclass(frozen=True)
class UpstreamCase:
    """One run of a program.

    Attributes:
        name: unique within the suite.
        settings: the options that are given, in the order of the command line.
        group: the part of the suite that the case comes from.
        defaults: every option of the program with its default.
    """

    name: str
    program: Program
    settings: Mapping[str, str] = field(hash=False)
    group: str = ""
    defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)

    def value(self, option: str) -> str:
        """The value in effect; ``""`` if the program has no such option."""
        return self.settings.get(option, self.defaults.get(option, ""))

    def number(self, option: str) -> int:
        """An integer option, read with C's ``atoi``: text that is not a number counts as 0."""
        values = self.numbers(option)
        return values[0] if values else 0

    def numbers(self, option: str) -> tuple[int, ...]:
        """A comma-separated list of integers; empty if the option is not given."""
        text = self.value(option)
        return tuple(_atoi(part) for part in text.split(",")) if text else ()

    def real(self, option: str) -> float:
        """A number; 0 if the text is not one."""
        try:
            return float(self.value(option))
        except ValueError:
            return 0.0

    def on(self, option: str) -> bool:
        """A switch: true for ``1``, ``t`` or ``true``."""
        text = self.value(option)
        return text in ("t", "true") or (text not in ("f", "false") and _atoi(text) != 0)

    def argv(self, **instead: str) -> tuple[str, ...]:
        """``-name=value`` for every setting. ``instead`` replaces values and adds settings that are not given."""
        return tuple(f"-{name}={value}" for name, value in {**self.settings, **instead}.items() if value)


def respelled(argv: Sequence[str], instead: Mapping[str, str]) -> tuple[str, ...]:
    """A command line with new values for some options, which move to its end."""
    kept = [word for word in argv if word[1:].partition("=")[0] not in instead]
    return (*kept, *(f"-{name}={value}" for name, value in instead.items()))


def _atoi(text: str) -> int:
    text = text.strip()
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    end = next((i for i, c in enumerate(digits) if not c.isdecimal()), len(digits))
    return int(sign + digits[:end]) if end else 0


@dataclass(frozen=True)
class Mapped:
    """A case as both sides take it.

    Attributes:
        argv: the program's options, with the lengths that it would draw written out.
        flags: this tool's problem flags; empty if the sides cannot be compared.
        problem: the problem of these flags; None if the sides cannot be compared.
        reasons: why the sides cannot be compared; empty if they can.
        notes: sentences about the case for its reader.
        fill: the fill that this tool uses.
    """

    case: UpstreamCase
    argv: tuple[str, ...]
    flags: Mapping[str, str | bool | int | float] = field(default_factory=dict, hash=False)
    problem: Problem | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    fill: str = "normal"


class Said(StrEnum):
    """The result of one run of a program."""

    VALID = "valid"
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    """No instance for the case, or arguments that the program refuses as not supported."""
    IGNORED = "ignored"
    """It ran something other than requested, and reported that."""
    OTHER = "other"
    """It ran something other than requested: its line shows other values."""
    UNCHECKED = "unchecked"
    """It ran without validation, as requested."""
    FAILED = "failed"
    """It gave up with an error of the runtime."""
    USAGE = "usage"
    """It did not understand its command line."""
    UNREADABLE = "unreadable"
    """Anything else: nothing is known."""
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    NO_DEVICE = "no-device"


@dataclass(frozen=True)
class Ran:
    """One run of a program as the system observed it.

    Attributes:
        returncode: negative for a signal.
        device: the device that it had to use, as ``fmha devices`` lists it; None if the program chose.
        variables: environment variables that direct it to that device.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    seconds: float = 0.0
    device: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """The meaning of a run.

    Attributes:
        why: one line for people, empty for a plain pass.
        line: the line of results; None if there is none.
        kernels: kernel names as the program printed them.
        ms: milliseconds for one pass over all kernels; None if it did not time.
    """

    said: Said
    why: str = ""
    line: str | None = None
    kernels: tuple[str, ...] = ()
    ms: float | None = None


@dataclass(frozen=True)
class Binaries:
    """The path of each program that was found, and the reason for each missing one."""

    found: Mapping[Program, Path]
    missing: Mapping[Program, str]


@dataclass(frozen=True)
class Needs:
    """The kernels that one program needs: the ones that this tool would run.

    Attributes:
        kernels: upstream's name and the family of each kernel, in the order in which cases need them.
        arch: the architecture; None if no case needs a kernel.
        without: number of cases for which this tool has no kernel.
    """

    program: Program
    kernels: tuple[tuple[str, Family], ...] = ()
    arch: str | None = None
    without: int = 0


Progress = Callable[[int, int, str], None]
"""(done, total, name of the last one)."""


class Counterpart(Protocol):
    """The programs of a project.

    Attributes:
        binaries: the file name of each program.
        options: every option of each program with its default.
        once: settings that make a program launch once and not time.
        timing: settings that make a program only time.
    """

    binaries: Mapping[Program, str]
    options: Mapping[Program, Mapping[str, str]]
    once: Mapping[str, str]
    timing: Mapping[str, str]

    def suites(self) -> Mapping[str, Path]:
        """The files of the suites by name (``parity.suite``)."""

    def mapped(self, case: UpstreamCase) -> Mapped:
        """The case for both sides. A case that cannot be mapped is not comparable; this never raises."""

    def read(self, ran: Ran, case: UpstreamCase, *, validated: bool = True) -> Reading:
        """The meaning of a run of a case. ``validated``: whether the program had to check its result."""

    def without_times(self, reading: Reading) -> Reading:
        """The reading without its times, which mean nothing on an emulated device."""

    def environment(self, device: str | None, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment that makes a program run on a device of this tool (``hip:1``)."""

    def make(
        self,
        needs: Mapping[Program, Needs],
        arch: ArchSpec,
        context: BuildContext,
        into: Path | None,
        progress: Progress,
    ) -> Binaries:
        """Builds the programs with exactly the needed kernels, into a folder, or into the cache if the folder is None.

        Raises:
            EnvironmentProblem: no sources, no compiler, or a generator that fails.
            KernelFailure: a file that does not compile, or a program that does not link.
            Interrupted: Ctrl-C.
        """


@runtime_checkable
class Comparable(Protocol):
    """A backend whose project has its own programs that run the same kernels."""

    def counterpart(self) -> Counterpart:
        """The programs."""
