"""The table of commands, and the options that all of them share. ``fmha --help`` needs nothing else.

The modules of this package declare what commands take, and import nothing of what commands do: a command's help, its completion
and the check of ``fmha.toml``, which needs the options of all commands, stay fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module

from fmha_cli.cli.command import CommandSet, CommandSpec, Opt
from fmha_cli.domain.flags import FlagKind


@dataclass(frozen=True)
class CommandEntry:
    """One command.

    Attributes:
        module: of this package, that declares it in ``COMMANDS``.
        summary: its line in ``fmha --help``.
        report: whether its ``--json`` document is ``fmha.report/1``.
    """

    module: str
    summary: str
    report: bool = False


COMMANDS = {
    "run": CommandEntry("run", "Resolve, build if needed, run, and check against the reference", report=True),
    "validate": CommandEntry("run", "Check kernels thoroughly: several fills, poison, guards, repeats", report=True),
    "bench": CommandEntry("run", "Check once, then time: median with confidence interval", report=True),
    "tune": CommandEntry("tune", "Find the fastest kernel of a problem and remember it: ls, rm, verify, export"),
    "sweep": CommandEntry("sweep", "Many rows over many devices; a killed sweep is resumed", report=True),
    "worker": CommandEntry("sweep", "Lend this host's devices to a sweep of a cluster"),
    "compare": CommandEntry("compare", "Compare two runs: which rows are surely slower, faster or the same"),
    "report": CommandEntry("compare", "Runs as one HTML page: plots, history, comparison, tables"),
    "explain": CommandEntry("kernels", "Why each candidate kernel fits or not; or the page of a rule: explain K012"),
    "plan": CommandEntry("kernels", "Stages, kernels, workspace and predicted memory of a problem"),
    "list-kernels": CommandEntry("kernels", "Every kernel that exists for an architecture"),
    "build": CommandEntry("kernels", "Build kernels ahead of time"),
    "inspect": CommandEntry("kernels", "What a built kernel needs: registers, spills, instructions"),
    "parity": CommandEntry("compare", "Compare upstream's example programs with this tool, case by case"),
    "doctor": CommandEntry("machine", "Check this machine by running a tiny kernel on each backend"),
    "devices": CommandEntry("machine", "The devices that backends found"),
    "plugins": CommandEntry("machine", "Built-in and installed plugins, and what is wrong with them"),
    "archs": CommandEntry("machine", "The architectures and their facts"),
    "profiles": CommandEntry("machine", "The named sets of kernels"),
    "models": CommandEntry("machine", "The presets of --model, or one model with the source of every fact"),
    "workloads": CommandEntry("machine", "The calls of a file for --workload, with their counts"),
    "results": CommandEntry("results", "The results that are kept: ls, show, import, export, label, rm"),
    "cache": CommandEntry("cache", "The build cache: ls, stats, verify, prune, why, export, import"),
    "sources": CommandEntry("cache", "The pinned third-party sources: list, fetch, verify, path, rm"),
    "schema": CommandEntry("machine", "The JSON schemas of what --json prints"),
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


def declared(name: str) -> CommandSpec | CommandSet:
    """The command of a name of the table."""
    found: CommandSpec | CommandSet = import_module(f"{__name__}.{COMMANDS[name].module}").COMMANDS[name]
    return found


def known_options() -> dict[str, list[str]]:
    """Every command and the names of its options."""
    out: dict[str, list[str]] = {}
    for name in COMMANDS:
        found = declared(name)
        parts = [command for _, command in found.commands.values()] if isinstance(found, CommandSet) else [found]
        out[name] = [option.name for part in parts for option in (*part.options, *TALK)]
    return out
