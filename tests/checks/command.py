"""The command line of the checks: one for all of them."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.checks.check import ROOT, Check, Row
from tests.checks.runner import Outcome, Wanted, named, run
from tests.checks.tables import crosstab
from tests.support.careful import CAREFUL
from tools.result_data import write_json

PLUGIN_TESTS = {
    "emulator_anchors": "plugins/fmha-amdgpu-emu",
    "emulator_faults": "plugins/fmha-amdgpu-emu",
    "nvptx_anchors": "plugins/fmha-nvptx-emu",
    "gluon_example": "plugins/fmha-nvptx-emu",
}
"""Checks whose launches are those of a plugin's tests."""
SCHEMA = "fmha.check/1"
LONGEST = 600
"""Characters of a row that is not good."""


def names() -> dict[str, str]:
    """Each check, and the first line of its documentation."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_text("utf-8")
        if "\nCHECK = Check(" in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def load(name: str) -> Check[Any]:
    """A check by its name."""
    check: Check[Any] = import_module(f"tests.checks.{name}").CHECK
    return check


def with_plugin(name: str, argv: Sequence[str]) -> int | None:
    """The exit status of this command in a process that finds the tests of the check's plugin; None if this one does."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folder = str(ROOT / PLUGIN_TESTS.get(name, ""))
    if name not in PLUGIN_TESTS or folder in paths:
        return None
    path = os.pathsep.join(filter(None, (folder, str(ROOT), *paths)))
    command = [sys.executable, "-m", "tests.checks", *argv]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def write(name: str, check: Check[Any], outcome: Outcome) -> None:
    """Write what the check keeps, or the rows into ``results/data``, from which the tables of the pages are made."""
    if check.keep is not None:
        check.keep(outcome.rows)
        return
    revisions = dict(Counter(line.revision for line in outcome.lines))
    document = {"schema": SCHEMA, "check": name, "revisions": revisions, "rows": outcome.rows}
    write_json(ROOT / "results" / "data" / f"{name}.json.xz", document)


def overview(check: Check[Any], rows: Sequence[Row]) -> str:
    """How many rows there are of each sort, what the check says of them, and the rows that are not good."""
    parts = [crosstab(rows, *check.by, "rows")]
    if check.summarise is not None:
        parts.append(check.summarise(rows))
    return "\n\n".join([*parts, *(f"- {json.dumps(row)[:LONGEST]}" for row in rows if not check.good(row))])


def main(argv: Sequence[str]) -> int:
    """Run a check. Returns 0 if every asked row is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.checks", description=__doc__)
    parser.add_argument("check", nargs="?", choices=names(), metavar="NAME", help="without one, all are listed")
    parser.add_argument(
        "--select", action="append", default=[], metavar="WORDS", help="cases whose names hold these words"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, metavar="N", help="carry out at most N cases that do not stand")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that carry out cases")
    parser.add_argument("--again", action="store_true", help="also carry out cases whose rows stand")
    parser.add_argument(
        "--careful",
        action="store_true",
        help="run planted faults again, also with --emu-careful, which must end the same",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--json", action="store_true", help="print the rows, one a line, instead of the summary")
    parser.add_argument(
        "--journal", type=Path, metavar="FILE", help="what was carried out [default: .checks/NAME.jsonl]"
    )
    parser.add_argument("--write", action="store_true", help="write the rows into results/data")
    given = parser.parse_args(argv)
    if given.check is None:
        print("\n".join(f"{name:22} {about}" for name, about in names().items()))
        return 0
    if (status := with_plugin(given.check, argv)) is not None:
        return status
    check = load(given.check)
    os.environ |= {CAREFUL: "1"} if given.careful else {}
    again = given.again or given.careful
    wanted = Wanted(tuple(given.select), given.sample, given.seed, given.limit, given.jobs, again)
    if given.list:
        print("\n".join(wanted.of(list(named(check)))))
        return 0
    journal = given.journal or ROOT / ".checks" / f"{given.check}.jsonl"
    outcome = run(check, wanted, journal, lambda text: print(text, file=sys.stderr, flush=True))
    print("\n".join(json.dumps(row) for row in outcome.rows) if given.json else overview(check, outcome.rows))
    for name, why in outcome.refused.items():
        print(f"refused: {name}: {why}", file=sys.stderr)
    print(
        f"{outcome.carried_out} cases carried out, {outcome.stood} stood, {len(outcome.left)} left; "
        f"{len(outcome.bad)} not good{': ' if outcome.bad else ''}{'; '.join(outcome.bad[:20])}",
        file=sys.stderr,
    )
    if given.write:
        write(given.check, check, outcome)
    return int(not outcome.good)
