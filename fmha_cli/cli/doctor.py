"""``fmha doctor``: the parts of this machine that kernels need, each proved by use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import perf_counter_ns

from fmha_cli.bench.peaks import every_kept
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands import known_options
from fmha_cli.cli.config import PREFIX, strange_variables
from fmha_cli.cli.plugins import plugin_rows
from fmha_cli.cli.request import surroundings_of
from fmha_cli.domain.device import Availability, State, huge_pages
from fmha_cli.domain.errors import ExitCode, FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.installation import NO_DEVICE_HERE, Checker, CheckState, DoctorCheck, Doctored, Surroundings
from fmha_cli.domain.kernel import parse_kernel
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.processor import microarchitecture, this_processor
from fmha_cli.domain.quantities import size
from fmha_cli.domain.verdict import Verdict
from fmha_cli.report.documents.installation import doctor_document, doctor_view
from fmha_cli.report.form import Format
from fmha_cli.report.lines import counted
from fmha_cli.report.parts import environment
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request
from fmha_cli.run.run import Run
from fmha_cli.toolchain.cache.listing import cache_stats
from fmha_cli.toolchain.cache.root import open_root
from fmha_cli.toolchain.cpp.find import check_compilers

TINY = ("--heads", "2", "--seqlen", "64", "--hdim", "64", "--causal")
"""The problem that every backend is tried on, in the first of ``DTYPES`` that it serves."""

DTYPES = ("fp16", "bf16", "fp32")


def doctor(call: CliCall) -> int:
    """Exit 4 only if something that was named is broken."""
    named = tuple(call.arguments.get("names") or ())
    for name in named:
        if all(name != fault.plugin for fault in call.registry.faults) and name not in call.registry.emulators:
            call.registry.backend(name)
    found: dict[str, Availability] = {}
    checks: list[DoctorCheck] = []
    with call.console.progress("doctor") as progress:
        for check in _checks(call, found, named):
            checks.append(check)
            progress(0, 0, f"{check.name} {check.subject} is done")
    document = doctor_document(checks, environment(found))
    if call.output.form is Format.TABLE and call.settings.on("verbose"):
        call.output.table(document, partial(doctor_view, whole=True))
    else:
        call.output.document(document)
    broken = [c for c in checks if c.subject in named and c.state is not CheckState.OK]
    return int(ExitCode.ENVIRONMENT if broken else ExitCode.OK)


def _checks(call: CliCall, found: dict[str, Availability], named: Collection[str]) -> Iterator[DoctorCheck]:
    """Every check; only a named part fails if it is not here."""
    here = surroundings_of(call)
    yield from _configuration(call)
    yield _tried("cache", str(here.cache_root), lambda: _cache(here))
    yield from _processor(call, here)
    for checker in (check_compilers, *checkers_of(call.registry.backends.values())):
        yield from checker(here)
    yield from _plugins(call)
    yield from _emulators(call)
    for name, backend in call.registry.backends.items():
        found.update(probe_backends(call.registry, (backend,)))
        yield _backend(call, name, found[name], named=name in named)


def checkers_of(backends: Iterable[object]) -> tuple[Checker, ...]:
    """The checks that backends provide, each once."""
    return tuple(dict.fromkeys(c for backend in backends if isinstance(backend, Doctored) for c in backend.checkers()))


def _configuration(call: CliCall) -> Iterator[DoctorCheck]:
    """The files in use, strongest first, and the variables."""
    yield from (_ok("configuration", str(path), "in force") for path in call.files)
    strange = strange_variables(call.environ, {name for names in known_options().values() for name in names})
    variables = sorted(name for name in call.environ if name.startswith(PREFIX) and name not in strange)
    yield _ok("variables", f"{PREFIX}*", ", ".join(variables) or "none is set")
    for name, help in strange.items():
        state = CheckState.FAILED
        yield DoctorCheck(name="variables", subject=name, state=state, what="nothing reads it", help=help)


def _cache(here: Surroundings) -> str:

    stats = cache_stats(open_root(here.cache_root))
    return f"safe, {counted(stats.entries, 'entry')}, {size(stats.total_bytes)}"


def _processor(call: CliCall, here: Surroundings) -> Iterator[DoctorCheck]:
    """The processor, its known facts, and the values that were measured because no fact has them."""
    processor = this_processor()
    known = microarchitecture(processor)
    facts = [] if known is None else [f"{name} {_value(fact['value'])}" for name, fact in sorted(known.facts.items())]
    unknown = "nothing is known of its microarchitecture: what kernels need to know is measured once"
    yield _ok("processor", processor.text, f"facts: {'; '.join(facts)}" if facts else unknown)
    algorithms = {name: backend.algorithm for name, backend in call.registry.backends.items()}
    for subject, settings in every_kept(here.cache_root):
        with suppress(UsageError):  # of a plugin that is gone
            kernel, threads = parse_kernel(subject.kernel, algorithms), subject.machine.threads
            values = ", ".join(f"{name} {value}" for name, value in sorted(settings.values.items()))
            if subject.machine.processor == processor:
                what = f"{values}, measured with {threads} thread{'' if threads == 1 else 's'}"
                yield _ok("settings", f"{kernel.backend} {kernel.arch} {kernel.digest[:8]}", what)
    yield _ok("huge pages", "shared memory", huge_pages())


def _value(value: object) -> str:
    return " ".join(f"{name} {part}" for name, part in value.items()) if isinstance(value, dict) else str(value)


def _plugins(call: CliCall) -> Iterator[DoctorCheck]:

    for row in plugin_rows(call.registry):
        for fault in row.faults:
            state = CheckState.FAILED
            yield DoctorCheck(name="plugin", subject=row.name, state=state, what=fault.what, help=fault.help)
        if not row.faults and not row.builtin:
            yield _ok("plugin", row.name, f"{row.distribution} {row.version}")


def _emulators(call: CliCall) -> Iterator[DoctorCheck]:
    """Whether each emulator has what it needs. Nothing is built, because that takes minutes."""
    for name, emulator in call.registry.emulators.items():
        probed = emulator.probe()
        devices = ", ".join(device.id for device in probed.devices)
        what = " with ".join(filter(None, (devices, probed.version)))
        yield _unusable("emulator", name, probed, CheckState.FAILED) or _ok("emulator", name, what)


def _backend(call: CliCall, name: str, probed: Availability, *, named: bool) -> DoctorCheck:
    """A backend with a device here builds, runs and checks a tiny kernel."""
    state = CheckState.FAILED if named or probed.state is State.BROKEN else CheckState.SKIPPED
    return _unusable("backend", name, probed, state) or _tried("backend", name, lambda: _tiny(call, name))


def _tiny(call: CliCall, name: str) -> str:
    """Run the tiny problem, and return the result in one line. Raises FmhaError: every dtype is refused, or the row did
    not pass."""
    timeout, root = call.settings.number("timeout", 120.0), call.settings.text("cache_dir")
    request = Request(backend=name, timeout=timeout, cache_root=root, argv=call.argv)
    for dtype in DTYPES:
        problem = Problem.from_cli((*TINY, "--dtype", dtype))
        (record,) = Run((problem,), request, call.registry, voice=Voice(call.console.detail)).records()
        if record.verdict is Verdict.UNSUPPORTED:
            continue
        if record.verdict is not Verdict.PASSED:
            why = "; ".join((*(reason.text for reason in record.reasons), *record.notes)) or None
            raise KernelFailure(f"{record.verdict.value} on {problem.repro()}", code="D001", why=why, help=record.repro)
        return f"PASSED {problem.repro()} on {record.device} with a {record.arch} kernel"
    raise UnsupportedError(f"refuses {' '.join(TINY)} in {', '.join(DTYPES)}", code="D002")


def _ok(name: str, subject: str, what: str, time_ns: int | None = None) -> DoctorCheck:
    return DoctorCheck(name=name, subject=subject, state=CheckState.OK, what=what, time_ns=time_ns)


_STATES = {State.BROKEN: "it is broken", State.MISSING: "it is not installed", State.NO_DEVICE: NO_DEVICE_HERE}


def _unusable(name: str, subject: str, probed: Availability, state: CheckState) -> DoctorCheck | None:
    """The check of something that cannot be used on this machine; None if it can."""
    if probed.state is State.OK:
        return None
    what, why, help = _STATES[probed.state], probed.why, probed.help
    return DoctorCheck(name=name, subject=subject, state=state, what=what, why=why, help=help)


def _tried(name: str, subject: str, act: Callable[[], str]) -> DoctorCheck:
    """The check of an action: OK with the text that it returns, failed with the error that it raises."""
    start = perf_counter_ns()
    try:
        what = act()
        return _ok(name, subject, what, perf_counter_ns() - start)
    except FmhaError as error:
        return DoctorCheck.failed(name, subject, error)
