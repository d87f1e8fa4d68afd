"""``fmha doctor``: what is here, proved by using it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import CACHE_DIR, CK_HOME, ROWS, TIMEOUT
from fmha_cli.errors import ExitCode, FmhaError

if TYPE_CHECKING:
    from fmha_cli.build.notice import Notice
    from fmha_cli.device import Availability
    from fmha_cli.report.tools import DoctorCheck

TINY = ("--heads", "2", "--seqlen", "64", "--hdim", "64", "--causal")
"""The problem that every backend is tried on, in the first of ``DTYPES`` that it serves."""

DTYPES = ("fp16", "bf16", "fp32")


def doctor(call: Call) -> int:
    """Exit 4 only when something that was asked for by name is broken."""
    from fmha_cli.report.environment import environment
    from fmha_cli.report.tools import CheckState, doctor_document

    named = tuple(call.arguments.get("names") or ())
    for name in named:
        if all(name != fault.plugin for fault in call.registry.faults) and name not in call.registry.emulators:
            call.registry.backend(name)
    found: dict[str, Availability] = {}
    checks: list[DoctorCheck] = []
    with call.voice.progress("doctor") as progress:
        for check in _checks(call, found):
            checks.append(check)
            progress(len(checks), len(checks) + 1, f"{check.name} {check.subject}")
    call.output.document(doctor_document(checks, environment(found)))
    broken = [c for c in checks if c.subject in named and c.state is not CheckState.OK]
    return int(ExitCode.ENVIRONMENT if broken else ExitCode.OK)


def _checks(call: Call, found: dict[str, Availability]) -> Iterator[DoctorCheck]:
    from fmha_cli.walk.probing import probe_backends

    yield from _configuration(call)
    yield from _cache(call)
    yield from _toolchains(call)
    yield from _ck_source(call)
    yield from _hip_compilers(call)
    yield from _cuda_compilers(call)
    yield from _plugins(call)
    yield from _emulators(call)
    for name, backend in call.registry.backends.items():
        found.update(probe_backends(call.registry, (backend,)))
        yield _backend(call, name, found)


def _configuration(call: Call) -> Iterator[DoctorCheck]:
    """The files in force, strongest first, and the variables."""
    from fmha_cli.report.tools import CheckState, DoctorCheck

    for path in call.files:
        yield DoctorCheck(name="configuration", subject=str(path), state=CheckState.OK, what="in force")
    variables = sorted(name for name in call.environ if name.startswith("FMHA_"))
    what = ", ".join(variables) if variables else "none is set"
    yield DoctorCheck(name="variables", subject="FMHA_*", state=CheckState.OK, what=what)


def _cache(call: Call) -> Iterator[DoctorCheck]:
    from fmha_cli.build.listing import cache_stats
    from fmha_cli.build.root import cache_root, open_root

    root = cache_root(call.settings.text("cache_dir"), call.environ)

    def look() -> str:
        stats = cache_stats(open_root(root))
        return f"safe, {stats.entries} kernels, {stats.total_bytes / 2**20:.1f} MiB"

    yield _tried("cache", str(root), look)


def _toolchains(call: Call) -> Iterator[DoctorCheck]:
    """Every compiler that could be used; only the first that works is."""
    from fmha_cli.build.find import survey
    from fmha_cli.build.root import cache_root, open_root
    from fmha_cli.build.toolchain import INSTALL_HELP
    from fmha_cli.report.tools import CheckState, DoctorCheck

    try:
        layout = open_root(cache_root(call.settings.text("cache_dir"), call.environ))
        findings = survey(layout, lambda notice: call.voice.detail(notice.text), call.environ)
    except FmhaError as error:
        yield _failed("compiler", "c++", error)
        return
    works = False
    for finding in findings:
        subject = finding.candidate.command
        if finding.toolchain is not None:
            what = finding.toolchain.version + (" (second choice)" if works else "")
            works = True
            yield DoctorCheck(name="compiler", subject=subject, state=CheckState.OK, what=what)
        else:
            why = finding.fault or "it does not work"
            yield DoctorCheck(name="compiler", subject=subject, state=CheckState.WARNING, what="passed over", why=why)
    if not works:
        yield DoctorCheck(
            name="compiler",
            subject="c++",
            state=CheckState.FAILED,
            what="no C++ compiler works here",
            help=INSTALL_HELP,
        )


def _ck_source(call: Call) -> Iterator[DoctorCheck]:
    """The Composable Kernel that kernels would be built against. Nothing is fetched here."""
    from fmha_cli.cli.sources import ck_row
    from fmha_cli.report.tools import CheckState, DoctorCheck, SourceState

    row = ck_row(call)
    states = {SourceState.PRESENT: CheckState.OK, SourceState.MISSING: CheckState.SKIPPED}
    yield DoctorCheck(
        name="source",
        subject="Composable Kernel",
        state=states.get(row.state, CheckState.FAILED),
        what=f"{row.revision} from {row.origin}" if row.include else row.state.value,
        why=row.why or "; ".join(row.notes) or None,
        help=row.help,
    )


def _hip_compilers(call: Call) -> Iterator[DoctorCheck]:
    """Compilers for AMD GPUs up to the first that works. None is needed without such a GPU, so none is no failure."""
    from fmha_cli.build.rocm.candidates import INSTALL_HELP
    from fmha_cli.build.rocm.toolchain import survey_rocm
    from fmha_cli.build.root import cache_root
    from fmha_cli.report.tools import CheckState, DoctorCheck
    from fmha_cli.sources.rocm_parts import rocm_supply

    root = cache_root(call.settings.text("cache_dir"), call.environ)

    def quiet(notice: Notice) -> None:
        call.voice.detail(notice.text)

    parts = rocm_supply(root, offline=True, notify=quiet)
    try:
        findings = survey_rocm(root, parts=parts, notify=quiet, environ=call.environ)
    except FmhaError as error:
        yield _failed("HIP compiler", "hipcc", error)
        return
    for finding in findings:
        subject, found = finding.candidate.command, finding.toolchain
        if found is not None:
            what = f"{found.version}, HIP {found.hip_version} in {found.rocm_path}"
            yield DoctorCheck(name="HIP compiler", subject=subject, state=CheckState.OK, what=what)
        else:
            state = CheckState.FAILED if finding.candidate.wished else CheckState.SKIPPED
            what = f"passed over (from {finding.candidate.origin})"
            yield DoctorCheck(
                name="HIP compiler", subject=subject, state=state, what=what, why=finding.fault, help=finding.help
            )
    if not findings:
        yield DoctorCheck(
            name="HIP compiler", subject="hipcc", state=CheckState.SKIPPED, what="none is installed", help=INSTALL_HELP
        )


def _cuda_compilers(call: Call) -> Iterator[DoctorCheck]:
    """Compilers for NVIDIA GPUs up to the first that works. Without one, kernels from an archive still run."""
    from fmha_cli.build.cuda.toolchain import survey_cuda
    from fmha_cli.build.root import cache_root
    from fmha_cli.report.tools import CheckState, DoctorCheck

    try:
        findings = survey_cuda(cache_root(call.settings.text("cache_dir"), call.environ))
    except FmhaError as error:
        yield _failed("CUDA compiler", "NVRTC", error)
        return
    for finding in findings:
        found, subject = finding.toolchain, finding.kind.value
        state = CheckState.SKIPPED if found is None else CheckState.OK
        what = "passed over" if found is None else f"{found.version} in {found.path.parent}"
        yield DoctorCheck(
            name="CUDA compiler", subject=subject, state=state, what=what, why=finding.fault, help=finding.help
        )


def _plugins(call: Call) -> Iterator[DoctorCheck]:
    from fmha_cli.cli.plugins import plugin_rows
    from fmha_cli.report.tools import CheckState, DoctorCheck

    for row in plugin_rows(call.registry):
        for what, help in row.faults:
            yield DoctorCheck(name="plugin", subject=row.name, state=CheckState.FAILED, what=what, help=help)
        if not row.faults and not row.builtin:
            what = f"{row.distribution} {row.version}"
            yield DoctorCheck(name="plugin", subject=row.name, state=CheckState.OK, what=what)


def _emulators(call: Call) -> Iterator[DoctorCheck]:
    """Emulators and whether what they need is here. Nothing is built: that takes minutes."""
    from fmha_cli.device import State
    from fmha_cli.report.tools import CheckState, DoctorCheck

    for name, emulator in call.registry.emulators.items():
        probed = emulator.probe()
        devices = ", ".join(device.id for device in probed.devices)
        ok = probed.state is State.OK
        yield DoctorCheck(
            name="emulator",
            subject=name,
            state=CheckState.OK if ok else CheckState.FAILED,
            what=" with ".join(filter(None, (devices, probed.version))) if ok else probed.state.value,
            why=probed.why,
            help=probed.help,
        )


def _backend(call: Call, name: str, found: Mapping[str, Availability]) -> DoctorCheck:
    """A tiny kernel, built and run and checked, when the backend has a device here."""
    from fmha_cli.device import State
    from fmha_cli.report.tools import CheckState, DoctorCheck

    probed = found[name]
    if probed.state is not State.OK:
        state = CheckState.FAILED if probed.state is State.BROKEN else CheckState.SKIPPED
        return DoctorCheck(
            name="backend", subject=name, state=state, what=probed.state.value, why=probed.why, help=probed.help
        )
    return _tried("backend", name, lambda: _tiny(call, name))


def _tiny(call: Call, name: str) -> str:
    """Run the tiny problem. Returns what came of it.

    Raises:
        FmhaError: every dtype is refused, or the row did not pass.
    """
    from fmha_cli.errors import KernelFailure, UnsupportedError
    from fmha_cli.problem import Problem
    from fmha_cli.verdict import Verdict
    from fmha_cli.walk.request import Request
    from fmha_cli.walk.run import run_points

    request = Request(
        backend=name,
        timeout=call.settings.number("timeout", 120.0),
        cache_root=call.settings.text("cache_dir"),
        argv=call.argv,
    )
    for dtype in DTYPES:
        problem = Problem.from_cli((*TINY, "--dtype", dtype))
        outcome = run_points((problem,), request, call.registry, notify=call.voice.detail)
        record = outcome.records[0]
        if record.verdict is Verdict.UNSUPPORTED:
            continue
        if record.verdict is not Verdict.PASSED:
            why = "; ".join((*(reason.text for reason in record.reasons), *record.notes)) or None
            raise KernelFailure(f"{record.verdict.value} on {problem.repro()}", code="D001", why=why, help=record.repro)
        return f"PASSED {problem.repro()} on {record.device} with a {record.arch} kernel"
    raise UnsupportedError(f"refuses {' '.join(TINY)} in {', '.join(DTYPES)}", code="D002")


def _tried(name: str, subject: str, act: Callable[[], str]) -> DoctorCheck:
    """The check that an action makes: ok with what it returns, failed with what it raises."""
    from fmha_cli.report.tools import CheckState, DoctorCheck

    start = perf_counter_ns()
    try:
        what = act()
    except FmhaError as error:
        return _failed(name, subject, error)
    took = perf_counter_ns() - start
    return DoctorCheck(name=name, subject=subject, state=CheckState.OK, what=what, time_ns=took)


def _failed(name: str, subject: str, error: FmhaError) -> DoctorCheck:
    from fmha_cli.report.tools import CheckState, DoctorCheck

    return DoctorCheck(
        name=name, subject=subject, state=CheckState.FAILED, what=error.what, why=error.why, help=error.help
    )


COMMAND = Command(
    doctor,
    options=(TIMEOUT, CK_HOME, CACHE_DIR, *ROWS),
    arguments=(
        Argument("names", "Backends, emulators or plugins that must work: exit 4 when one does not", many=True),
    ),
)
