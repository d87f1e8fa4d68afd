"""``fmha parity``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command, Opt
from fmha_cli.cli.options import CHOOSING, EMULATING, FILL_SEED, FILTER, ROWS, RUNNING
from fmha_cli.device import is_emulated
from fmha_cli.errors import ExitCode, UsageError
from fmha_cli.flags import Flag, FlagKind

if TYPE_CHECKING:
    from fmha_cli.parity.case import Case
    from fmha_cli.parity.compare import Row
    from fmha_cli.parity.emulated import EmulatedSide
    from fmha_cli.parity.suite import Suite
    from fmha_cli.parity.upstream import Binaries
    from fmha_cli.walk.request import Request

_S, _T, _F, _B = FlagKind.SIZE, FlagKind.TEXT, FlagKind.FILE, FlagKind.SWITCH
_HERE = "Upstream"

SUITE = Opt(
    Flag(
        "suite",
        _T,
        "basic, smoke, smoke_fwd, smoke_bwd, smoke_fwd_splitkv, smoke_fwd_appendkv, or a suite file [default: basic]",
        metavar="SUITE",
    ),
    _HERE,
)
UPSTREAM_BIN = Opt(
    Flag("upstream-bin", _F, "Folder of tile_example_fmha_fwd and tile_example_fmha_bwd", metavar="DIR"), _HERE
)
BUILD_UPSTREAM = Opt(
    Flag("build-upstream", _B, "Build the programs for the cases' kernels first, into --upstream-bin or the cache"),
    _HERE,
)
LIMIT = Opt(Flag("limit", _S, "At most N cases"), "Choosing")
ROUNDS = Opt(
    Flag(
        "rounds",
        _S,
        "Rounds of timing for cases that both pass, 0 = none [default: 7; 0 for over 100 cases and emulated devices]",
    ),
    "Measuring",
)
LIST = Opt(Flag("list", _B, "List the cases with both sides' command lines, and run nothing"), "Running")

BACKEND = "ck_tile"
"""The backend of this tool's side: the one whose kernels are upstream's."""

FEW = 100
"""Up to this many cases are timed without being asked: 7 rounds take some seconds each."""


def parity(call: Call) -> int:
    """Every case of the suite on both sides; one row each, also after Ctrl-C."""
    from fmha_cli.cli.request import request_of
    from fmha_cli.parity.choosing import chosen, parse_terms
    from fmha_cli.parity.compare import Setup, compare
    from fmha_cli.parity.document import parity_document, row_dict
    from fmha_cli.parity.outcome import exit_code_of
    from fmha_cli.parity.suite import load_suite
    from fmha_cli.report.environment import environment

    suite = load_suite(call.settings.text("suite") or "basic")
    limit = call.settings.size("limit", 0, 1) if call.settings.text("limit") else None
    cases = chosen(suite.cases(), parse_terms(call.settings.many("filter")), limit)
    if call.settings.on("list"):
        return listed(call, suite, cases)
    emulated = is_emulated(call.settings.text("device"))
    rounds = call.settings.size("rounds", 7 if len(cases) <= FEW and not emulated else 0)
    # What is compared here are results; the peaks of this machine need no measuring for that.
    request = replace(request_of(call), backend=call.settings.text("backend") or BACKEND, peak="spec")
    built = call.settings.on("build_upstream")
    side = _emulated_side(call, request, rounds) if emulated else None
    binaries = _built(call, cases, request) if built else _binaries(call)
    setup = Setup(
        request=request,
        registry=call.registry,
        binaries=binaries,
        environ=dict(call.environ),
        rounds=rounds,
        for_these_cases=built,
        emulated=side,
    )
    call.voice.say(f"{suite.name}: {len(cases)} {'case' if len(cases) == 1 else 'cases'}")

    rows: list[dict[str, Any]] = []

    def on_row(row: Row) -> None:
        if call.output.streams:
            call.output.row(row_dict(row))
        else:
            rows.append(row_dict(row))

    with call.voice.progress("parity") as progress:
        done = compare(cases, setup, on_row=on_row, notify=call.voice.say, progress=progress)
    if not call.output.streams:
        call.output.document(parity_document(suite, rows, binaries, environment(done.availability)))
    _say_missing(call, binaries, cases)
    if done.interrupted:
        call.voice.error("interrupted")
    return int(exit_code_of(done.outcomes, interrupted=done.interrupted))


def listed(call: Call, suite: Suite, cases: list[Case]) -> int:
    """The cases with what each side would be given."""
    from fmha_cli.parity.document import listed_dict, parity_document
    from fmha_cli.parity.mapping import mapped
    from fmha_cli.report.environment import environment

    rows = [listed_dict(mapped(case)) for case in cases]
    call.output.document(parity_document(suite, rows, None, environment({})))
    return int(ExitCode.OK)


def _emulated_side(call: Call, request: Request, rounds: int) -> EmulatedSide:
    """What the programs run on, built.

    Raises:
        UsageError: Z004, rounds of timing. EnvironmentProblem: no such device. KernelFailure: it does not compile.
    """
    from fmha_cli.parity.emulated import EmulatedSide, refuse_rounds
    from fmha_cli.walk.builds import build_context
    from fmha_cli.walk.emulation import emulation_of

    assert request.device is not None
    refuse_rounds(request.device, rounds)
    emulation = emulation_of(request, call.registry, build_context(request, call.voice.say))
    assert emulation is not None
    return EmulatedSide.of(call.registry, request.device, emulation)


def _binaries(call: Call) -> Binaries:
    from fmha_cli.parity.upstream import find_binaries

    folder = call.settings.text("upstream_bin")
    if folder is None:
        raise UsageError(
            "fmha parity needs the upstream programs",
            code="Y005",
            where="--upstream-bin",
            help="--upstream-bin DIR, or --build-upstream; --list shows the cases without them",
        )
    return find_binaries(Path(folder))


def _built(call: Call, cases: list[Case], request: Request) -> Binaries:
    """The programs, built for the kernels that the cases need."""
    from fmha_cli.parity.making import make_programs
    from fmha_cli.parity.mapping import mapped

    folder = call.settings.text("upstream_bin")
    with call.voice.progress("build") as progress:
        return make_programs(
            [mapped(case) for case in cases],
            request,
            call.registry,
            into=Path(folder) if folder else None,
            notify=call.voice.say,
            progress=progress,
        )


def _say_missing(call: Call, binaries: Binaries, cases: list[Case]) -> None:
    """An error for every program that a case needed and that is not there: such cases are no agreement."""
    from fmha_cli.errors import EnvironmentProblem

    for program, why in binaries.missing.items():
        count = sum(case.program is program for case in cases)
        if count:
            error = EnvironmentProblem(
                f"{why}: {count} of {len(cases)} cases did not run",
                code="Y006",
                where="--upstream-bin",
                help="build it (--build-upstream), or leave its cases out: --filter -program:" + program.value,
            )
            call.voice.error(error.render())


COMMAND = Command(
    parity,
    options=(
        *(
            UPSTREAM_BIN,
            BUILD_UPSTREAM,
            SUITE,
            FILTER.says("KEY:GLOB over cases: name, group, program, or an option (prec:bf16)"),
        ),
        *(LIMIT, *CHOOSING[:3], FILL_SEED, ROUNDS, LIST, *RUNNING, *EMULATING, *ROWS),
    ),
    detail="Both sides get every setting of a case; each checks its own result. Outcomes: agree-pass, "
    "agree-unsupported, agree-fail, we-fail, they-fail, not-comparable, crashed, timed-out, not-run, missing-binary. "
    "Exit codes: 0 all agree (cases that cannot be compared aside), 1 a mismatch or a wrong result, 4 not run or a "
    "program is missing, 5 no case matches, 6 crashed or timed out.",
)
