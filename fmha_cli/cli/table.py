"""The table of commands, and the options that all of them share. ``fmha --help`` needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from fmha_cli.cli.command import Opt
from fmha_cli.domain.flags import Flag, FlagKind


@dataclass(frozen=True)
class Entry:
    """One command.

    Attributes:
        module: where it is declared; imported only when the command is called.
        summary: its line in ``fmha --help``.
        report: whether its ``--json`` document is ``fmha.report/1``.
    """

    module: str
    summary: str
    report: bool = False


def _at(name: str, summary: str, *, report: bool = False) -> Entry:
    return Entry(f"fmha_cli.cli.{name}", summary, report)


COMMANDS = {
    "run": _at("run", "Resolve, build if needed, run, and check against the reference", report=True),
    "validate": _at("validate", "Judge kernels hard: several fills, poison, guards, repeats", report=True),
    "bench": _at("bench", "Check once, then time: median with confidence interval", report=True),
    "explain": _at("explain", "Every candidate kernel, why it fits or not; or the page of a rule: explain K012"),
    "plan": _at("plan", "Stages, kernels, workspace and predicted memory of a problem"),
    "list-kernels": _at("list_kernels", "Every kernel that exists for an architecture"),
    "build": _at("build", "Build kernels ahead of time"),
    "inspect": _at("inspect", "What a built kernel needs: registers, spills, instructions"),
    "parity": _at("parity", "Upstream's example programs against this tool, case by case"),
    "doctor": _at("doctor", "What is here, proved by running a tiny kernel on each backend"),
    "devices": _at("devices", "The devices that backends found"),
    "plugins": _at("plugins", "Built-in and installed plugins, and what is wrong with them"),
    "archs": _at("archs", "The architectures and their facts"),
    "profiles": _at("profiles", "The named sets of kernels"),
    "cache": _at("cache", "The build cache: ls, stats, verify, prune, why, export, import"),
    "sources": _at("sources", "The pinned third-party sources: list, fetch, verify, path, rm"),
    "schema": _at("schema", "The JSON schemas of what --json prints"),
}
"""In the order of ``--help``."""

TALK = (
    Opt(Flag("quiet", FlagKind.SWITCH, "Say nothing but errors", "q"), "Talk"),
    Opt(Flag("verbose", FlagKind.SWITCH, "Say more", "v"), "Talk"),
    Opt(
        Flag("color", FlagKind.TEXT, "When to color [default: auto]", metavar="WHEN"),
        "Talk",
        ("auto", "always", "never"),
    ),
)
"""The options of every command and of ``fmha`` itself."""
