"""``fmha parity``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.compare import BACKEND, PROGRAMS
from fmha_cli.cli.request import one_backend, request_of
from fmha_cli.domain.counterpart import Binaries, Comparable, Counterpart, UpstreamCase
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, UsageError
from fmha_cli.domain.phases import Voice
from fmha_cli.parity.choosing import chosen, terms_of
from fmha_cli.parity.compare import ComparedCase, Setup, compare
from fmha_cli.parity.document import case_row, listed_row, parity_document
from fmha_cli.parity.emulated import EmulatedSide
from fmha_cli.parity.outcome import exit_code_of
from fmha_cli.parity.programs import find_binaries, make_programs
from fmha_cli.parity.suite import Suite, load_suite
from fmha_cli.report.documents.parity import ParityCase, ParityOutcome
from fmha_cli.report.parts import environment
from fmha_cli.report.target import Unread
from fmha_cli.run.request import Request

FEW = 100
"""At most this many cases are timed by default, because 7 rounds of one case take some seconds."""


def parity(call: CliCall) -> int:
    """Every case of the suite on both sides; one row each, also after Ctrl-C."""
    # Only results are compared, so the peaks of this machine need not be measured.
    request = replace(request_of(call), backend=call.settings.text("backend") or BACKEND, peak="spec")
    one_backend(call, request.wanted)
    upstream = _upstream(call)
    suite = load_suite(call.settings.text("suite") or PROGRAMS.suites[0], upstream)
    limit = call.settings.size("limit", 0, 1) if call.settings.text("limit") else None
    cases = chosen(suite.cases(), terms_of(call.settings.many("filter"), upstream.options), limit)
    if call.settings.on("list"):
        return listed(call, suite, cases, upstream)
    emulated = is_emulated(call.settings.text("device"))
    rounds = call.settings.size("rounds", 7 if len(cases) <= FEW and not emulated else 0)
    side = EmulatedSide.of(request, call.registry, rounds, Voice(call.console.say)) if emulated else None
    binaries = _binaries(call, cases, upstream, request)
    setup = Setup(
        upstream=upstream,
        request=request,
        registry=call.registry,
        binaries=binaries,
        environ=dict(call.environ),
        rounds=rounds,
        for_these_cases=call.settings.on("build_upstream"),
        emulated=side,
    )
    call.console.say(f"{suite.name}: {len(cases)} {'case' if len(cases) == 1 else 'cases'}")

    rows: list[ParityCase] = []
    seen: list[ParityOutcome] = []

    def on_row(row: ComparedCase) -> None:
        seen.append(row.outcome)
        if call.output.streams:
            call.output.row(case_row(row))
            if call.output.gone:
                raise Unread
        else:
            rows.append(case_row(row))

    with call.console.progress("parity") as progress:
        try:
            done = compare(cases, setup, on_row=on_row, progress=progress, voice=call.console.voice(progress))
        except Unread:  # nobody reads the rows any more
            return int(exit_code_of(seen))
    if not call.output.streams:
        call.output.document(parity_document(suite, rows, binaries, environment(done.availability)))
    _say_missing(call, binaries, cases)
    if done.interrupted:
        call.console.error("interrupted")
    return int(exit_code_of(done.outcomes, interrupted=done.interrupted))


def _upstream(call: CliCall) -> Counterpart:
    """The programs of the named backend, or of the default one if that has none (``--backend cpu``)."""
    asked = call.registry.backends.get(call.settings.text("backend") or BACKEND)
    backend = asked if isinstance(asked, Comparable) else call.registry.backend(BACKEND)
    assert isinstance(backend, Comparable)
    return backend.counterpart()


def listed(call: CliCall, suite: Suite, cases: list[UpstreamCase], upstream: Counterpart) -> int:
    """The cases with what each side would be given."""
    rows = [listed_row(upstream.mapped(case)) for case in cases]
    call.output.document(parity_document(suite, rows, None, environment({})))
    return int(ExitCode.OK)


def _binaries(call: CliCall, cases: list[UpstreamCase], upstream: Counterpart, request: Request) -> Binaries:
    """The programs of ``--upstream-bin``, or those built for the kernels that the cases need."""
    folder = call.settings.text("upstream_bin")
    if call.settings.on("build_upstream"):
        mapped, into = [upstream.mapped(case) for case in cases], Path(folder) if folder else None
        voice = Voice(call.console.say)
        with call.console.progress("build") as progress:
            return make_programs(mapped, upstream, request, call.registry, into=into, progress=progress, voice=voice)
    if folder is None:
        help = "--upstream-bin DIR, or --build-upstream; --list shows the cases without them"
        raise UsageError("fmha parity needs the upstream programs", code="Y005", where="--upstream-bin", help=help)
    return find_binaries(Path(folder), upstream.binaries)


def _say_missing(call: CliCall, binaries: Binaries, cases: list[UpstreamCase]) -> None:
    """Report every missing program that a case needed: such a case is not an agreement."""
    for program, why in binaries.missing.items():
        count = sum(case.program is program for case in cases)
        if count:
            what = f"{why}: {count} of {len(cases)} cases did not run"
            help = f"build it (--build-upstream), or leave its cases out: --filter -program:{program.value}"
            error = EnvironmentProblem(what, code="Y006", where="--upstream-bin", help=help)
            call.console.error(error.render())
