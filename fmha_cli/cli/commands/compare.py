"""The commands that compare: ``fmha compare``, ``report`` and ``parity``."""

from __future__ import annotations

from functools import partial

from fmha_cli.cli.command import Argument, CommandSpec, Opt
from fmha_cli.cli.options import (
    CHOOSING,
    EMULATING,
    FILL_SEED,
    FILTER,
    OUTPUT_FILE,
    ROWS,
    RUNNING,
    STORE,
    TABLE,
)
from fmha_cli.discovery.builtins import compared
from fmha_cli.domain.flags import FlagKind

PROCESSES_EACH = 8
"""Processes of each command for the first look."""
_N, _S, _T, _F, _B = FlagKind.NUMBER, FlagKind.SIZE, FlagKind.TEXT, FlagKind.FILE, FlagKind.SWITCH
_judging, _running = (partial(Opt, panel=panel) for panel in ("Judging", "Running"))
RUN = _running(
    "run",
    _T,
    "A command that prints rows, such as 'fmha bench -s 4k'; given twice, the two alternate",
    repeats=True,
    metavar="CMD",
)
PROCESSES = _running("processes", _S, "Processes of each command for the first look at every row [default: 8]")
CONFIRM = _running(
    "confirm", _S, "Fresh processes of each for the suspicious rows, 0 = none [default: 12, or more if they need it]"
)
TOLERANCE = _judging(
    "tolerance", _N, "A smaller difference counts as none, in per cent [default: 2]", metavar="PERCENT"
)
ALPHA = _judging(
    "alpha",
    _N,
    "Chance of any false one among the rows that are run again; without that, share of false ones [default: 0.05]",
)
FAIL_ON = _judging(
    "fail-on", _T, "What ends with exit code 1: slower, unsure, wrong [default: slower,wrong]", metavar="WHAT,..."
)
BY = _judging(
    "by",
    _T,
    "What must be equal: problem, backend, device, arch, cache, threads, kernel, model [default: the first six]",
    metavar="WHAT,...",
)
HTML = Opt(
    "html", FlagKind.FILE, "Also write a page with plots (see fmha report)", panel="Output", flag_only=True, writes=True
)
OWN = (RUN, PROCESSES, CONFIRM, TOLERANCE, ALPHA, FAIL_ON, BY, FILTER, *ROWS)
"""Options whose variables the commands of ``--run`` do not inherit."""
COMPARE = Opt(
    "compare", FlagKind.TEXT, "Compare two runs, as fmha compare does", metavar="BEFORE AFTER", repeats=True, pair=True
)
TITLE = Opt("title", FlagKind.TEXT, "Title of the page [default: the names of the runs]", flag_only=True)
SVG = Opt(
    "svg", FlagKind.FILE, "Write each plot as an SVG file into a folder", panel="Output", metavar="DIR", flag_only=True
)
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

COMMANDS = {
    "compare": CommandSpec(
        "compare:compare",
        options=(*OWN, HTML, STORE),
        arguments=(
            Argument(
                "before", "A run: its id, label, rev:COMMIT or latest~1 in the store, or a file of --json or --jsonl"
            ),
            Argument("after", "The run to compare with it"),
        ),
        documents=("compare",),
        detail="A row is SLOWER or FASTER if an exact test over processes finds it, corrected for the number of rows, and the "
        "difference is larger than the tolerance. SAME needs an interval within the tolerance. All else is UNSURE, with the "
        "least slow-down that the data would have shown. At least 5 processes a side are needed: fmha bench --processes 8, or "
        "several runs in one file of --jsonl. Stored runs did not take turns, so what the machine moved adds to the "
        "tolerance. With --run, all rows are looked at first, and fresh processes decide the suspicious ones. "
        "Exit codes: 0 nothing of --fail-on, 1 some of it, 2 unreadable, 5 nothing corresponds.",
    ),
    "report": CommandSpec(
        "report:report",
        options=(COMPARE, FILTER, TITLE, OUTPUT_FILE.says("The HTML file, written atomically"), SVG, STORE),
        arguments=(
            Argument(
                "runs",
                "Runs: ids, labels, rev:COMMIT, latest~1 in the store, or files of --json, --jsonl or journals",
                many=True,
                complete="runs",
            ),
        ),
        detail="The page is complete in itself: it fetches nothing, and has light and dark colours. Plots: throughput against the "
        "sequence length, roofline, regret, history over the runs of the store, comparison, samples by process, verdicts by reason. "
        "Below them: the rows, each with the line that gives it again; rows without a time and why; the environment. "
        "It needs the extra report: pip install 'fmha[report]'. The exit code does not depend on the verdicts.",
    ),
    "parity": CommandSpec(
        "parity:parity",
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
    ),
}
