"""``fmha compare``: which rows of two runs are surely slower, faster or the same."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.bench.compare import TOLERANCE
from fmha_cli.bench.difference import SureRule
from fmha_cli.bench.ranks import ALPHA
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.compare import OWN, PROCESSES_EACH
from fmha_cli.cli.html_output import Paper
from fmha_cli.cli.options import FORMATS
from fmha_cli.cli.results import loaded
from fmha_cli.cli.settings import variable_of
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.suggest import suggest
from fmha_cli.report.documents.compare import Compare
from fmha_cli.report.form import Format
from fmha_cli.report.lines import counted
from fmha_cli.results.comparison import FAIL_ON, FailOn, RunComparison, compared, confirmed, processes_to_confirm
from fmha_cli.results.conditions import By, parse_by
from fmha_cli.results.documents import compare_document
from fmha_cli.results.filtering import filtered
from fmha_cli.results.run import KeptRun
from fmha_cli.results.turns import Turns


def compare(call: CliCall) -> int:
    """Compare two stored runs, or two interleaved commands, or confirm suspicious rows of two stored runs."""
    by, fail_on = parse_by(call.settings.text("by")), _fail_on(call)
    names, commands = _names(call), _commands(call)
    paper = _paper(call)
    tolerance = call.settings.number("tolerance", TOLERANCE * 100, zero=True) / 100
    rule = SureRule(tolerance=tolerance, alpha=_alpha(call), interleaved=names is None)
    with call.console.progress("compare") as progress:
        turns = None if commands is None else _turns(call, commands, progress)
        if names is not None:
            runs = [loaded(call, name) for name in names]
        else:
            assert turns is not None
            taken = turns.run(call.settings.size("processes", PROCESSES_EACH, 1))
            lines = map(shlex.join, turns.commands)
            runs = [
                KeptRun(line, filtered(side, call.settings.many("filter")))
                for line, side in zip(lines, taken, strict=True)
            ]
        before, after = runs
        found = compared(before.records, after.records, rule, by)
        if turns is not None:
            found = _confirmed(call, found, turns, by)
    document = compare_document(found, before, after, by)
    call.output.document(document)
    if paper is not None:
        _write(call, paper, runs, document)
    if turns is None:
        _say_how_to_confirm(call, found)
    return int(found.exit_code(fail_on))


def _confirmed(call: CliCall, found: RunComparison, turns: Turns, by: Sequence[By]) -> RunComparison:
    """The comparison after fresh processes have judged its suspicious rows."""
    rows = found.suspicious
    if not rows or call.settings.text("confirm") == "0":
        return found
    least = processes_to_confirm(len(rows), found.rule.alpha)
    processes = call.settings.size("confirm", least, 1)
    call.console.say(f"{counted(len(rows), 'suspicious row')}: run again, {processes} processes a side")
    taken = turns.run(processes, [side.one for row in rows for side in (row.matched.before, row.matched.after)])
    before, after = (filtered(side, call.settings.many("filter")) for side in taken)
    return confirmed(found, before, after, by)


def _say_how_to_confirm(call: CliCall, found: RunComparison) -> None:

    if found.suspicious:
        rows = counted(len(found.suspicious), "suspicious row")
        call.console.say(f"{rows}: --run 'CMD' --run 'CMD' next to the two names runs them again, alternating")


def _names(call: CliCall) -> tuple[str, str] | None:
    """The names of the two runs; None where both sides are commands.

    Raises:
        UsageError: one name alone, or neither names nor commands.
    """
    names = [name for key in ("before", "after") if (name := call.argument(key)) is not None]
    if len(names) == 2:
        return names[0], names[1]
    if names or not call.settings.many("run"):
        help = "fmha compare BEFORE AFTER, or fmha compare --run CMD --run CMD"
        raise UsageError("compare takes two runs", code="E002", where="fmha compare", help=help)
    return None


def _commands(call: CliCall) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words of the two commands; None without any.

    Raises:
        UsageError: one alone, three, or one that no shell would understand.
    """
    texts = call.settings.many("run")
    where = call.settings.where("run")
    if not texts:
        return None
    if len(texts) != 2:
        raise UsageError(f"{where}: two commands are compared", code="E002", where=where, help="--run CMD --run CMD")
    words = []
    for text in texts:
        try:
            words.append(tuple(shlex.split(text)))
        except ValueError as fault:
            help = "a command with its words as in a shell: --run 'fmha bench -s 4k'"
            raise UsageError(f"{where} {text!r}: {str(fault).lower()}", code="E002", where=where, help=help) from fault
        if not words[-1]:
            raise UsageError(f"{where}: an empty command", code="E002", where=where)
    return words[0], words[1]


def _turns(
    call: CliCall, commands: tuple[tuple[str, ...], tuple[str, ...]], progress: Callable[[int, int, str], None]
) -> Turns:
    """The commands, asked by a variable to print rows; variables for this command's own options are not handed on."""
    own = {variable_of(option) for option in OWN}
    environ = {name: text for name, text in call.environ.items() if name not in own}
    environ[variable_of(FORMATS[Format.JSONL])] = "1"

    def tell(done: int, total: int, side: int) -> None:
        progress(done, total, f"--run {shlex.join(commands[side])}")

    return Turns(commands, environ, tell)


def _paper(call: CliCall) -> Paper | None:
    """The page of ``--html``, after a check that it can be written. Raises EnvironmentProblem: X040, X052."""
    text = call.settings.text("html")
    if text is None:
        return None
    paper = Paper((Path(text), "--html"))
    paper.check()
    return paper


def _write(call: CliCall, paper: Paper, runs: Sequence[KeptRun], document: Compare) -> None:

    title = f"fmha compare: {runs[0].name}, {runs[1].name}"
    shown = runs if runs[0] != runs[1] else runs[:1]
    paper.write(call, title, shown, document)


def _alpha(call: CliCall) -> float:
    alpha = call.settings.number("alpha", ALPHA)
    if alpha >= 1:
        where = call.settings.where("alpha")
        raise UsageError(f"{where} {alpha}: not below 1", code="E002", where=where, help="e.g. --alpha 0.05")
    return alpha


def _fail_on(call: CliCall) -> tuple[FailOn, ...]:
    text = call.settings.text("fail_on")
    if text is None:
        return FAIL_ON
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names or [text]:
        if name not in list(FailOn):
            where = call.settings.where("fail_on")
            raise UsageError(
                f"{where} {name}: no such choice", code="E008", where=where, help=suggest(name, list(FailOn))
            )
    return tuple(map(FailOn, names))
