"""The table of commands, and the options that all of them share. ``fmha --help`` needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module

from fmha_cli.cli.command import Command, CommandSet, Opt
from fmha_cli.domain.flags import FlagKind


@dataclass(frozen=True)
class Entry:
    """One command.

    Attributes:
        module: of this package, that declares it in ``COMMANDS``; it is imported only when the command is called.
        summary: its line in ``fmha --help``.
        report: whether its ``--json`` document is ``fmha.report/1``.
    """

    module: str
    summary: str
    report: bool = False


COMMANDS = {
    "run": Entry("walks", "Resolve, build if needed, run, and check against the reference", report=True),
    "validate": Entry("walks", "Check kernels thoroughly: several fills, poison, guards, repeats", report=True),
    "bench": Entry("walks", "Check once, then time: median with confidence interval", report=True),
    "tune": Entry("tune", "Find the fastest kernel of a problem and remember it: ls, rm, verify, export"),
    "sweep": Entry("sweep", "Many rows over many devices; a killed sweep is resumed", report=True),
    "worker": Entry("worker", "Lend this host's devices to a sweep of a cluster"),
    "compare": Entry("compare", "Compare two runs: which rows are surely slower, faster or the same"),
    "report": Entry("report", "Runs as one HTML page: plots, history, comparison, tables"),
    "explain": Entry("explain", "Why each candidate kernel fits or not; or the page of a rule: explain K012"),
    "plan": Entry("explain", "Stages, kernels, workspace and predicted memory of a problem"),
    "list-kernels": Entry("kernels", "Every kernel that exists for an architecture"),
    "build": Entry("build", "Build kernels ahead of time"),
    "inspect": Entry("inspect", "What a built kernel needs: registers, spills, instructions"),
    "parity": Entry("parity", "Compare upstream's example programs with this tool, case by case"),
    "doctor": Entry("doctor", "Check this machine by running a tiny kernel on each backend"),
    "devices": Entry("listing", "The devices that backends found"),
    "plugins": Entry("listing", "Built-in and installed plugins, and what is wrong with them"),
    "archs": Entry("listing", "The architectures and their facts"),
    "profiles": Entry("listing", "The named sets of kernels"),
    "models": Entry("listing", "The presets of --model, or one model with the source of every fact"),
    "results": Entry("results", "The results that are kept: ls, show, import, export, label, rm"),
    "cache": Entry("cache", "The build cache: ls, stats, verify, prune, why, export, import"),
    "sources": Entry("sources", "The pinned third-party sources: list, fetch, verify, path, rm"),
    "schema": Entry("listing", "The JSON schemas of what --json prints"),
}
"""In the order of ``--help``."""

_talk = partial(Opt, panel="Talk")
TALK = (
    _talk("quiet", FlagKind.SWITCH, "No announcements, progress or summaries", "q"),
    _talk(
        "verbose",
        FlagKind.SWITCH,
        "Say more: the time of each phase, and which values come from variables and files",
        "v",
    ),
    _talk(
        "color",
        FlagKind.TEXT,
        "auto, always or never [default: auto]",
        metavar="WHEN",
        choices=("auto", "always", "never"),
    ),
)
"""The options of every command and of ``fmha`` itself."""


MAY_STAND_ALONE = {"--store": "default"}
"""Options whose value may be left out, and the value that they then have."""


def declared(name: str) -> Command | CommandSet:
    """The command of a name of the table."""
    found: Command | CommandSet = import_module(f"fmha_cli.cli.{COMMANDS[name].module}").COMMANDS[name]
    return found
