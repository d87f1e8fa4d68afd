"""``WorkerJob``: everything that the worker needs to run one plan, the message that carries it, and ``JobResult``, the answer.
``contradiction`` finds the times in it that cannot be true.

The worker takes the host's clock around every launch, and the parent takes it around the whole request. A launch cannot
take longer than the host waited for it. The reverse does not hold: a session may leave work out of its time (zeroed
workspaces) or report the mean of many passes, so a time that is a constant share too short is not found here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, get_type_hints

from fmha_cli.domain.codec import from_json, to_json
from fmha_cli.domain.device import DeviceFacts
from fmha_cli.domain.emulation import EmulatorOptions, Observed
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.first_launch import FirstLaunch
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.plan import Artifact, Plan, Stage, Workspace
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import Backend
from fmha_cli.domain.quantities import duration, time_of
from fmha_cli.domain.verdict import Verdict

HOST = "host"
"""The runtime key of a worker whose jobs run on this machine's devices."""

RECORDER = "recorder"
"""The runtime key of a worker that records launches and does not run them."""


@dataclass(frozen=True)
class Loadable:
    """A file that a worker loads, and the sha256 that it must have."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, artifact: Artifact) -> Loadable:
        return cls(artifact.path, artifact.sha256)


@dataclass(frozen=True, kw_only=True)
class Emulation:
    """The emulator that a job's device needs.

    Attributes:
        entry: the entry point where the worker finds it.
        name: its name at that entry point.
        library: the library that it loads first; verified like any artifact.
    """

    entry: str
    name: str
    library: Loadable
    options: EmulatorOptions


@dataclass(frozen=True, kw_only=True)
class JobMessage:
    """A job as the worker receives it.

    Attributes:
        problem: every field of it. Its JSON form in documents leaves out defaults, and how large a given cache is.
        stages: the name of each kernel, with the stage's details.
        runtime: the key of the runtime that the worker loads. A worker with another runtime cannot run the job.
    """

    entry: str
    backend: str
    device: DeviceFacts
    problem: Mapping[str, Any]
    stages: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    workspaces: tuple[Workspace, ...]
    splits: int
    artifacts: tuple[Loadable, ...]
    threads: int
    emulation: Emulation | None
    runtime: str

    def plan(self, backend: Backend) -> Plan:
        """The plan of the job.

        Raises:
            DecodeError: the fields are not those of a problem.
            UsageError: a kernel name that is not canonical.
        """
        algorithms = {backend.name: backend.algorithm}
        stages = tuple(Stage(parse_kernel(name, algorithms), detail) for name, detail in self.stages)
        return Plan(problem_of(self.problem), stages, self.workspaces, self.splits)


wire_of: Callable[[Problem], Mapping[str, Any]] = asdict
"""Every field of a problem; its enumerations are texts."""


def problem_of(wire: Mapping[str, Any]) -> Problem:
    """The inverse of ``wire_of``.

    Raises:
        DecodeError: a field of another type. TypeError, KeyError: other fields.
    """
    hints = _problem_types()
    return Problem(**{name: from_json(hints[name], value, name) for name, value in wire.items()})


@cache
def _problem_types() -> Mapping[str, Any]:
    """The types of a problem's fields, which take 2 ms to find; without the limits of documents, which a default may be beyond."""
    return get_type_hints(Problem)


@dataclass(frozen=True, kw_only=True)
class WorkerJob:
    """One plan on one device.

    Attributes:
        entry: where the worker finds the backend: ``module`` or ``module:attribute``.
        artifacts: one for each stage, in order; the worker verifies each before it loads it.
        threads: number of threads for kernels on a CPU.
        emulation: the emulator of an emulated device; None on other devices.
    """

    entry: str
    device: DeviceFacts
    plan: Plan
    artifacts: tuple[Artifact, ...]
    threads: int = 1
    emulation: Emulation | None = None

    @property
    def backend(self) -> str:
        return self.plan.main.backend

    @cached_property
    def digest(self) -> str:
        """sha256 over the message to the worker."""
        return digest_of(to_json(self.message))

    @cached_property
    def message(self) -> JobMessage:
        """The message to the worker."""
        return JobMessage(
            entry=self.entry,
            backend=self.backend,
            device=self.device,
            problem=wire_of(self.plan.problem),
            stages=tuple((stage.kernel.name, stage.detail) for stage in self.plan.stages),
            workspaces=self.plan.workspaces,
            splits=self.plan.splits,
            artifacts=tuple(Loadable.of(artifact) for artifact in self.artifacts),
            threads=self.threads,
            emulation=self.emulation,
            runtime=HOST if self.emulation is None else digest_of([self.device.id, to_json(self.emulation)]),
        )


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """The result of one request to run a job.

    Attributes:
        verdict: None when it ran; else CRASHED, TIMED_OUT, OUT_OF_MEMORY, LAUNCH_FAILED or NOT_RUN.
        stage_ns: nanoseconds per launch and stage, in order.
        waited_ns: nanoseconds that the host waited for each launch.
        mistimed: why the times cannot be true; then ``stage_ns`` means nothing.
        note: why it did not run.
        log_tail: the end of the worker's output during the request.
        distrust: why a result should not be believed although it ran.
        observed: the emulator's observations, also for a failed run; None on other devices.
        remarks: what the session said when it was bound (``Remarking``).
        first: the observations of the job's first launch, if it was in this run.
    """

    verdict: Verdict | None = None
    stage_ns: tuple[tuple[int, ...], ...] = ()
    waited_ns: tuple[int, ...] = ()
    mistimed: str | None = None
    note: str | None = None
    log_tail: str = ""
    distrust: str | None = None
    observed: Observed | None = None
    remarks: tuple[str, ...] = ()
    first: FirstLaunch | None = None


SHORTEST_NS = 10
"""A launch with any work takes longer: to call a function through Python alone takes more than a hundred nanoseconds."""

SLACK, SLACK_NS = 0.01, 5_000
"""By this share and this much a time may exceed the host's: a device's clock drifts against the host's, and its events
have a resolution of half a microsecond."""

UNTIMED, UNTIMED_NS = 1.5, 5_000_000
"""A wait of the host that is so many times as long as the reported time, and longer by so much, deserves a note."""

_DIGITS = 6
"""A contradiction may be small."""

Reported = tuple[tuple[int | None, ...], ...]
"""Nanoseconds by launch and stage; None is a time that was no finite number."""


def contradiction(reported: Reported, waited: Sequence[int], elapsed_ns: int, *, works: bool) -> str | None:
    """The first time that cannot be true, in words; None if all of them can.

    Args:
        waited: nanoseconds that the worker waited for each launch.
        elapsed_ns: nanoseconds that the parent waited for all of them.
        works: whether the problem has any work; a launch without work may take no time.
    """
    count = len(reported)
    for number, (stages, host) in enumerate(zip(reported, waited, strict=True), 1):
        where = f"launch {number} of {count}" if count > 1 else "the launch"
        if any(ns is None for ns in stages):
            return f"{where} reported a time that is not a finite number"
        times = [ns for ns in stages if ns is not None]
        total = sum(times)
        if min(times) < 0:
            return f"{where} reported {time_of(min(times), _DIGITS)}: a time is not negative"
        if works and total < SHORTEST_NS:
            return f"{where} reported {time_of(total, _DIGITS)}: no launch takes less than {duration(SHORTEST_NS)}"
        if _beyond(total, host):
            return (
                f"{where} reported {time_of(total, _DIGITS)}, but the host waited only {time_of(host, _DIGITS)} for it"
            )
    for what, total in (
        ("reported", sum(ns or 0 for stages in reported for ns in stages)),
        ("waited for", sum(waited)),
    ):
        if _beyond(total, elapsed_ns):
            return f"{count} launches: {time_of(total, _DIGITS)} {what}, but the host's clock advanced by {time_of(elapsed_ns, _DIGITS)} only"
    return None


def untimed(reported: Sequence[int], waited: Sequence[int]) -> str | None:
    """A note where the host waited much longer than was reported; None where it did not.

    Args:
        reported: nanoseconds of each launch.
        waited: nanoseconds that the host waited for each of them.
    """
    if not reported or not waited:
        return None
    time, wait = (sorted(times)[len(times) // 2] for times in (reported, waited))
    if wait < time * UNTIMED or wait - time < UNTIMED_NS:
        return None
    return (
        f"the host waited {duration(wait)} for a launch that is reported with {duration(time)}: "
        "the rest is outside the timed part, or the timer is wrong"
    )


def _beyond(reported: int, waited: int) -> bool:
    return reported > waited * (1 + SLACK) + SLACK_NS
