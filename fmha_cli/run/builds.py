"""Building before the first row runs: the kernels of all rows, each once, in parallel, and the emulator that a request names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.blame import package_of
from fmha_cli.domain.device import is_emulated, usable_cores
from fmha_cli.domain.emulation import ChoosesArithmetic, Emulator, EmulatorOptions
from fmha_cli.domain.errors import EnvironmentProblem, FmhaError, UsageError
from fmha_cli.domain.features import Arithmetic
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.phases import SILENT, Phase, Voice
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import Backend, Batched, BuildContext, Estimated, Refusing
from fmha_cli.domain.quantities import span
from fmha_cli.domain.rules import Reason, unbuildable
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.job import Emulation, Loadable
from fmha_cli.run.records import Outcome
from fmha_cli.run.request import Command, Order, Request, context_at
from fmha_cli.run.rows import Row
from fmha_cli.toolchain.cache.files import as_environment_problem, make_private_dir
from fmha_cli.toolchain.cache.root import cache_root, open_root
from fmha_cli.toolchain.parallel import COMPILE_BYTES, BuildOutcome, Job, build_many

_Shop = tuple[str, str | None]
"""A backend, and the tree of sources that it builds from; None for the one that the options choose."""

KernelOutcome = BuildOutcome[Artifact]
"""The outcome of one kernel's build: an artifact, or the error that its rows show."""


def build_context(request: Request, voice: Voice = SILENT) -> BuildContext:
    """The context of this run's builds; the cache root is checked here.

    Raises:
        EnvironmentProblem: an unsafe cache root.
    """
    root = cache_root(request.cache_root)
    open_root(root)
    jobs = request.jobs or usable_cores()
    return BuildContext(
        cache_root=root,
        jobs=jobs,
        offline=request.offline,
        notify=voice.say,
        phase=voice.phase,
        options=dict(request.options),
    )


def build_orders(
    orders: Iterable[Order],
    registry: Registry,
    context: BuildContext,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    heard: Callable[[KernelOutcome], None] = lambda outcome: None,
) -> Mapping[str, KernelOutcome]:
    """Build every distinct kernel from its sources; the outcomes by ``Order.key``. One failure does not stop the others.

    A backend never gets kernels that its rules refuse. A backend that cannot build at all (no compiler, no sources)
    is reported once, and all its kernels share that error.

    Args:
        progress: kernels done, kernels in all, the name of the last one.
        heard: takes each outcome as soon as it is known, in the caller's thread.

    Raises:
        KeyboardInterrupt: the user interrupted; finished kernels are in the cache.
    """
    distinct = {order.key: order for order in orders}
    refused = {key: _refusal(registry, order.stage.kernel) for key, order in distinct.items()}
    ready, unfit = _prepared(registry, context, [order for key, order in distinct.items() if refused[key] is None])
    outcomes: dict[str, KernelOutcome] = {}
    jobs: dict[str, Job[Artifact]] = {}
    builds: list[tuple[Backend, Stage, BuildContext]] = []
    for key, order in distinct.items():
        kernel = order.stage.kernel
        shop = (kernel.backend, order.home)
        error = refused[key] or unfit.get(shop)
        if error is None:
            build = partial(_build, registry, ready[shop], order.stage)
            backend = registry.backend(kernel.backend)
            memory = backend.compile_bytes(kernel) if isinstance(backend, Batched) else COMPILE_BYTES
            jobs[key] = Job(kernel.name, build, memory, package_of(type(backend).__module__))
            builds.append((backend, order.stage, ready[shop]))
        else:
            outcomes[key] = KernelOutcome(kernel.name, None, error)
            heard(outcomes[key])

    say_costs(builds, context.notify)
    context.phase(Phase.BUILD, 0, len(jobs))

    def done(count: int, total: int, outcome: KernelOutcome) -> None:
        context.phase(Phase.BUILD, count, total)
        progress(len(outcomes) + count, len(distinct), outcome.name)
        heard(outcome)

    if jobs:
        progress(len(outcomes), len(distinct), next(iter(jobs.values())).name)
    batch = build_many(list(jobs.values()), context.jobs, done)
    if batch.interrupted:
        raise KeyboardInterrupt
    return {**outcomes, **dict(zip(jobs, batch.outcomes, strict=True))}


def say_costs(builds: Sequence[tuple[Backend, Stage, BuildContext]], say: Callable[[str], None]) -> None:
    """Say what the kernels will take, before the first one is compiled, for backends that have measured it."""
    costs: dict[str, list[tuple[float, float]]] = {}
    for backend, stage, context in builds:
        if not isinstance(backend, Estimated):
            continue
        with suppress(FmhaError):  # the build of that kernel reports it
            if seconds := backend.compile_seconds(stage, context):
                costs.setdefault(backend.name, []).append(seconds)
    for name, found in costs.items():
        least, most = (span(sum(side)) for side in zip(*found, strict=True))
        say(
            f"{len(found)} kernel{'' if len(found) == 1 else 's'} of {name} to compile: {least} to {most} of processor time"
        )


def _build(registry: Registry, context: BuildContext, stage: Stage, stop: Event) -> Artifact:
    return registry.backend(stage.kernel.backend).build(stage, replace(context, stop=stop))


def _refusal(registry: Registry, kernel: KernelSpec) -> FmhaError | None:
    """The first of the reasons why a kernel cannot exist on its architecture, as an error with all of them."""
    backend = registry.backend(kernel.backend)
    reasons = backend.refusals(kernel) if isinstance(backend, Refusing) else ()
    return unbuildable(kernel, reasons) if reasons else None


def _prepared(
    registry: Registry, context: BuildContext, orders: Sequence[Order]
) -> tuple[Mapping[_Shop, BuildContext], Mapping[_Shop, EnvironmentProblem]]:
    """Let each backend prepare its builds from each tree: the prepared contexts and the errors."""
    ready: dict[_Shop, BuildContext] = {}
    faults: dict[_Shop, EnvironmentProblem] = {}
    for name, home in dict.fromkeys((order.stage.kernel.backend, order.home) for order in orders):
        backend = registry.backend(name)
        here = context_at(registry, context, name, home)
        try:
            prepared = backend.prepare(here) if isinstance(backend, Batched) else None
            ready[name, home] = replace(here, prepared=prepared)
        except EnvironmentProblem as fault:
            faults[name, home] = fault
    return ready, faults


def artifacts_of(row: Row, built: Mapping[str, KernelOutcome]) -> tuple[Artifact, ...] | Outcome:
    """The artifacts of a row's stages, or the Outcome of a row whose build failed."""
    outcomes = [built[order.key] for order in row.orders]
    error = next((one.error for one in outcomes if one.error is not None), None)
    if error is None:
        return tuple(one.value for one in outcomes if one.value is not None)
    verdict = Verdict.BUILD_FAILED if error.exit_code == 6 else Verdict.NOT_RUN
    return Outcome(verdict=verdict, artifacts=tuple(one.value for one in outcomes), notes=(error.render(),))


def ready_of(row: Row, built: Mapping[str, KernelOutcome]) -> tuple[Artifact, ...] | Outcome:
    """The artifacts with which a row runs, or the Outcome of a row that cannot."""
    if row.choice is None:
        return Outcome(verdict=row.unserved)
    artifacts = artifacts_of(row, built)
    if isinstance(artifacts, Outcome) or row.choice.runnable:
        return artifacts
    note = f"no device here accepts {row.choice.kernel.arch}; the kernel was built"
    return Outcome(verdict=Verdict.NOT_RUN, artifacts=artifacts, notes=(note,))


UNTIMED = Reason(
    "Z003", "an emulated device has no speed: nothing was timed, and the counts of both kernels are compared"
)
"""Why the rows of ``--ab`` have no times on an emulated device."""


def refuse_timing(request: Request) -> None:
    """Refuse to time an emulated device: the times would be the emulator's. Two kernels can be compared by what they
    execute.

    Raises:
        UsageError: Z003, ``fmha bench`` of single kernels on an emulated device.
    """
    if request.command is Command.BENCH and request.ab is None and is_emulated(request.device):
        what = f"--device {request.device}: an emulated device has no speed to measure"
        why = "its times are those of the emulator, not of the kernel"
        help = (
            "fmha validate judges the kernel there; fmha inspect --executed counts what it executes; bench --ab K1 K2 compares "
            "the counts of two"
        )
        raise UsageError(what, code="Z003", where="--device", why=why, help=help)


ROOM = "emulators"
"""Below the cache root: a folder for each emulator."""


def _options(request: Request, cache: Path) -> EmulatorOptions:
    with as_environment_problem("keeping what an emulator found"):
        make_private_dir(cache)
    threads = request.emu_threads or usable_cores()
    return EmulatorOptions(
        seed=request.emu_seed,
        turn=request.emu_turn,
        threads=threads,
        checks=request.emu_checks,
        careful=request.emu_careful,
        cache=str(cache),
        arithmetic=request.emu_arith,
    )


def _refuse_arithmetic(emulator: Emulator, device: str, wanted: Arithmetic) -> None:
    has = emulator.arithmetics if isinstance(emulator, ChoosesArithmetic) else (Arithmetic.DOCUMENT,)
    if wanted not in has:
        raise UsageError(
            f"{emulator.name} has no arithmetic {wanted.value}",
            code="Z007",
            where="--emu-arith",
            why=f"on {device} it has {', '.join(has)}",
            help="leave --emu-arith out",
        )


def emulation_of(request: Request, registry: Registry, context: BuildContext) -> Emulation | None:
    """Build the libraries that the jobs of a request need on its emulated device; None for any other device.

    Raises:
        UsageError: Z007, the emulator lacks the arithmetic.
        EnvironmentProblem: Z001, Z002; no compiler; the cache cannot be written.
        KernelFailure: the emulator does not compile.
    """
    if request.device is None or not is_emulated(request.device):
        return None
    emulator, device = emulated_device(registry, request.device)
    _refuse_arithmetic(emulator, device.id, request.emu_arith)
    return Emulation(
        entry=registry.emulator_entry(emulator.name),
        name=emulator.name,
        library=Loadable.of(emulator.build(device, context)),
        options=_options(request, context.cache_root / ROOM / emulator.name),
    )
