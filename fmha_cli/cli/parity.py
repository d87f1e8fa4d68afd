"""``fmha parity``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.command import CommandSpec, Opt
from fmha_cli.cli.options import CHOOSING, EMULATING, FILL_SEED, FILTER, RUNNING, TABLE
from fmha_cli.discovery.builtins import compared
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import ExitCode, UsageError
from fmha_cli.domain.flags import FlagKind
from fmha_cli.domain.phases import Voice

if TYPE_CHECKING:
    from fmha_cli.domain.counterpart import Binaries, Counterpart, UpstreamCase
    from fmha_cli.parity.compare import ComparedCase
    from fmha_cli.parity.suite import Suite
    from fmha_cli.report.documents.parity import ParityCase, ParityOutcome
    from fmha_cli.run.request import Request

_S, _T, _F, _B = FlagKind.SIZE, FlagKind.TEXT, FlagKind.FILE, FlagKind.SWITCH
_upstreams = partial(Opt, panel="Upstream")

BACKEND, PROGRAMS = compared()
"""The backend whose upstream's programs are run, and what is known of them before it is imported."""

_SUITES = f"{', '.join(PROGRAMS.suites)}, or a suite file [default: {PROGRAMS.suites[0]}]"
SUITE = _upstreams("suite", _T, _SUITES, metavar="SUITE")
UPSTREAM_BIN = _upstreams("upstream-bin", _F, f"Folder of {' and '.join(PROGRAMS.binaries)}", metavar="DIR")
BUILD_UPSTREAM = _upstreams(
    "build-upstream", _B, "Build the programs for the cases' kernels first, into --upstream-bin or the cache"
)
LIMIT = Opt("limit", _S, "At most N cases", panel="Choosing")
ROUNDS = Opt(
    "rounds",
    _S,
    "Rounds of timing for cases that both pass, 0 = none [default: 7; 0 for over 100 cases and emulated devices]",
    panel="Measuring",
)
LIST = Opt("list", _B, "List the cases with both sides' command lines, and run nothing", panel="Running")

FEW = 100
"""At most this many cases are timed by default, because 7 rounds of one case take some seconds."""


def parity(call: CliCall) -> int:
    """Every case of the suite on both sides; one row each, also after Ctrl-C."""
    from fmha_cli.cli.asked import one_backend, request_of
    from fmha_cli.parity.choosing import chosen, terms_of
    from fmha_cli.parity.compare import Setup, compare
    from fmha_cli.parity.document import case_row, parity_document
    from fmha_cli.parity.emulated import EmulatedSide
    from fmha_cli.parity.outcome import exit_code_of
    from fmha_cli.parity.suite import load_suite
    from fmha_cli.report.parts import environment
    from fmha_cli.report.target import Unread

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
    from fmha_cli.domain.counterpart import Comparable

    asked = call.registry.backends.get(call.settings.text("backend") or BACKEND)
    backend = asked if isinstance(asked, Comparable) else call.registry.backend(BACKEND)
    assert isinstance(backend, Comparable)
    return backend.counterpart()


def listed(call: CliCall, suite: Suite, cases: list[UpstreamCase], upstream: Counterpart) -> int:
    """The cases with what each side would be given."""
    from fmha_cli.parity.document import listed_row, parity_document
    from fmha_cli.report.parts import environment

    rows = [listed_row(upstream.mapped(case)) for case in cases]
    call.output.document(parity_document(suite, rows, None, environment({})))
    return int(ExitCode.OK)


def _binaries(call: CliCall, cases: list[UpstreamCase], upstream: Counterpart, request: Request) -> Binaries:
    """The programs of ``--upstream-bin``, or those built for the kernels that the cases need."""
    from fmha_cli.parity.programs import find_binaries, make_programs

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
    from fmha_cli.domain.errors import EnvironmentProblem

    for program, why in binaries.missing.items():
        count = sum(case.program is program for case in cases)
        if count:
            what = f"{why}: {count} of {len(cases)} cases did not run"
            help = f"build it (--build-upstream), or leave its cases out: --filter -program:{program.value}"
            error = EnvironmentProblem(what, code="Y006", where="--upstream-bin", help=help)
            call.console.error(error.render())


COMMANDS = {
    "parity": CommandSpec(
        parity,
        options=(
            *(
                UPSTREAM_BIN,
                BUILD_UPSTREAM,
                SUITE,
                FILTER.says("KEY:GLOB over cases: name, group, program, or an option (prec:bf16)"),
            ),
            *(LIMIT, *CHOOSING[:3], FILL_SEED, ROUNDS, LIST, *RUNNING, *EMULATING, *TABLE),
        ),
        documents=("parity",),
        detail="Both sides get every setting of a case; each checks its own result. Outcomes: agree-pass, "
        "agree-unsupported, agree-fail, we-fail, they-fail, not-comparable, crashed, timed-out, not-run, missing-binary. "
        "Exit codes: 0 all agree (cases that cannot be compared aside), 1 a mismatch or a wrong result, 4 not run or a "
        "program is missing, 5 no case matches, 6 crashed or timed out.",
    )
}
