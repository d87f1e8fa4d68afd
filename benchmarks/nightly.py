"""A nightly job on the CPU backend, whose right answer is known: a kernel gets slower, and the report must say which rows did.

    python benchmarks/nightly.py --rows 300 --folder night --html nightly.html --json nightly.json

1. ``fmha sweep`` checks and times all rows and keeps them in a store of its own.
2. A copy of the checkout gets another tile for one type's kernel: the variant of ``fmha list-kernels --tuning`` whose cost is
   nearest to 10 % on this machine, or a delay of 10 % where none is near. ``fmha sweep`` checks the rows of the copy.
3. ``fmha compare --run A --run B`` runs both in turns, in two stages, and writes a page.
4. ``fmha report --compare`` makes a page of the same processes from their stored runs.
5. A headless Chromium opens both pages.
   What is finished stays in ``--folder``, down to each turn of the comparison: the same command goes on there after an interruption.
6. Exit code 0 if every row of the changed kernel is SLOWER, and no other row is SLOWER or FASTER; 1 if not; 2 if a step failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nightly_judge import Judgement, Shown, builds_of, judge, key_of, slow_downs, table
from nightly_plant import CHECKOUT, CONSTANTS, KIND, PACKAGES, Plant, checkout, cost_of, nearest

from fmha_cli.walk.host import this_host
from tools.chromium import browser, programs

DTYPES, HDIMS, HEADS = ("fp32", "bf16"), "64,128", "2,3,4"
PLANTED = "fp32"
STEP, FIRST_Q, FIRST_K = 32, 64, 128
SHAPES = len(DTYPES) * 2 * 3
"""Rows for each pair of lengths."""

TIMING = ("--threads", "1", "--budget", "0.1", "--no-probe", "--peak", "spec")
"""A fifth of the budget leads the samples: with less, all of them are taken before the processor is awake (docs/explanation/timing.md)."""

CONFIRM = 20
"""Fresh processes of each side. Half of the rows are planted, and every one is to be found (``compare_power.py nights``)."""

PROBE = ("-H", "2", "-s", "96,160", "--seqlen-k", "192", "-d", HDIMS, "--dtype", PLANTED)
PROBE_TIMING = ("--threads", "1", "--budget", "0.1", "--no-probe", "--peak", "spec", "--no-check")
BEFORE, AFTER = "before", "after"

_VERDICTS = """
const names = [...document.querySelectorAll("#compared th")].map(head => head.textContent.trim());
const place = names.findIndex(name => name.startsWith("verdict"));
return [...document.querySelectorAll("#compared tbody tr")].map(line => line.cells[place].textContent.trim());
"""


@dataclass
class Night:
    """One run of the job.

    Attributes:
        folder: for the store, the copy, and what the commands write.
        seconds: what each step took.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """What a step found, as JSON values: now, or in an earlier session."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(json.dumps(make()), "utf-8")
            part.rename(path)
        return json.loads(path.read_text("utf-8"))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"{name} ...", file=sys.stderr, flush=True)
        begun = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begun, 1)

    def fmha(self, *words: str, tree: Path = CHECKOUT, codes: Collection[int] = (0,)) -> str:
        """What a command printed. Raises RuntimeError: it ended with another exit code."""
        command = [*program(tree), *words]
        done = subprocess.run(command, cwd=self.folder, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            raise RuntimeError(f"{shlex.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-800:]}")
        return done.stdout

    def records(self, *words: str, tree: Path = CHECKOUT) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.fmha(*words, "--json", "-q", tree=tree))["records"]
        return found


def program(tree: Path) -> tuple[str, ...]:
    """``fmha`` of a checkout, as words that need no shell."""
    return ("env", f"PYTHONPATH={tree}", sys.executable, "-m", "fmha_cli")


def environment() -> dict[str, str]:
    """This one without settings of ``fmha`` but the place of its caches, so that the user's store stays out."""
    return {name: text for name, text in os.environ.items() if not name.startswith("FMHA_") or name == "FMHA_CACHE_DIR"}


def flags_of(rows: int) -> tuple[str, ...]:
    """Problem flags of so many rows: whole multiples of the planted kernel's tile, so that each row feels it alike.

    Raises:
        ValueError: the number is no multiple of 12.
    """
    pairs, rest = divmod(rows, SHAPES)
    if rest or pairs < 1:
        raise ValueError(f"--rows {rows}: a multiple of {SHAPES} is needed")
    queries = math.gcd(pairs, 5)
    lengths, keys = (
        ",".join(str(first + STEP * n) for n in range(count))
        for first, count in ((FIRST_Q, queries), (FIRST_K, pairs // queries))
    )
    text = f"--backend cpu -H {HEADS} -s {lengths} --seqlen-k {keys} -d {HDIMS} --dtype {','.join(DTYPES)}"
    return tuple(text.split())


def chosen(night: Night, arch: str, algorithm: Mapping[str, Any], how: str) -> tuple[Plant, list[dict[str, Any]]]:
    """What to plant, and the cost of every tile that was tried."""
    if how == "delay":
        return Plant(PLANTED, arch), []
    listed = json.loads(night.fmha("list-kernels", "--backend", "cpu", "--arch", arch, "--tuning", "--json"))["kernels"]
    costs = []
    for kernel in listed:
        tile = kernel["algorithm"]
        if (kernel["signature"]["dtype"], tile["kind"], tile["block_k"]) != (PLANTED, KIND, algorithm["block_k"]):
            continue
        words = ("--ab", algorithm["digest"][:16], kernel["digest"][:16])
        found = night.records("bench", "--backend", "cpu", *PROBE, *PROBE_TIMING, "--no-store", *words)
        costs.append(({name: tile[name] for name in CONSTANTS}, cost_of(found, algorithm["digest"], kernel["digest"])))
    tried = [{**tile, "cost": cost} for tile, cost in costs]
    best = nearest(costs)
    return (Plant(PLANTED, arch) if best is None else Plant(PLANTED, arch, *best)), tried


def shown(pages: Sequence[Path], folder: Path) -> tuple[Shown, ...]:
    """The pages as Chromium shows them. Raises NoBrowser."""
    seen = []
    with browser(folder) as chromium:
        for path in pages:
            page = chromium.open(path.read_text("utf-8"))
            words, marks = tuple(page.run(_VERDICTS)), page.marks("compare")
            seen.append(Shown(path.name, page.drawn, marks, tuple(page.errors()), tuple(page.requests()), words))
    return tuple(seen)


def compared(
    night: Night, commands: tuple[str, str], processes: int, confirm: int | None
) -> tuple[dict[str, Any], Path]:
    """The document and the page of ``fmha compare`` in turns."""
    page, session = night.folder / "compare.html", night.folder / "session"
    shutil.rmtree(session, ignore_errors=True)
    turn = (sys.executable, str(Path(__file__).with_name("nightly_turn.py")), str(night.folder / "turns"), str(session))
    told = [shlex.join(("env", f"PYTHONPATH={CHECKOUT}", *turn, side)) for side in (BEFORE, AFTER)]
    runs = [word for first, command in zip(told, commands, strict=True) for word in ("--run", f"{first} {command}")]
    more = () if confirm is None else ("--confirm", str(confirm))
    words = ("compare", *runs, "--processes", str(processes), *more, "--html", str(page), "--json", "-q")
    document: dict[str, Any] = json.loads(night.fmha(*words, codes=(0, 1)))
    return document, page


def reported(night: Night, before: Path, after: Path) -> Path:
    """The page of ``fmha report --compare`` of two files of rows."""
    page = night.folder / "report.html"
    night.fmha("report", "--compare", before.name, after.name, "--title", "fmha nightly", "-o", str(page), "-q")
    return page


def exported(night: Night, side: str) -> Path:
    """All turns of a side in one file, in which they are the processes of its rows."""
    path = night.folder / f"{side}.jsonl"
    with path.open("wb") as file:
        for turn in sorted((night.folder / "turns").glob(f"{side}-*.jsonl")):
            file.write(turn.read_bytes())
    return path


def same_night(folder: Path, asked: Sequence[object]) -> None:
    """Make the folder of a night, or go on with it.

    Raises:
        ValueError: it is that of another night: other options, another machine, or another state of this checkout.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    for path in sorted(path for name in PACKAGES for path in (CHECKOUT / name).rglob("*") if path.is_file()):
        if "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(CHECKOUT)).encode() + path.read_bytes())
    identity = [*asked, list(TIMING), this_host().text, this_host().digest, digest.hexdigest()]
    path = folder / "asked.json"
    if path.exists() and json.loads(path.read_text("utf-8")) != identity:
        raise ValueError(f"{folder} is the folder of another night: other options, sources, or another machine")
    path.write_text(json.dumps(identity), "utf-8")


def carried_out(
    night: Night, rows: int, processes: int, confirm: int | None, how: str
) -> tuple[Judgement, dict[str, Any]]:
    """All steps, and what they found beside the judgement."""
    store, flags = night.folder / "nightly.sqlite", flags_of(rows)
    keep = ("--store", str(store), "--label")
    with night.step("sweep"):
        swept = night.kept("swept", lambda: night.records("sweep", *flags, *TIMING, *keep, "nightly"))
    old = next(record for record in swept if record["problem"]["dtype"] == PLANTED)
    algorithm = {**old["kernel"]["algorithm"], "digest": old["kernel"]["digest"]}
    with night.step("search for a constant"):
        found = night.kept(
            "plant",
            lambda: [asdict(part[0]) | {"tried": part[1]} for part in [chosen(night, old["arch"], algorithm, how)]],
        )[0]
        tried = found.pop("tried")
        plant = Plant(**{**found, "cost": tuple(found["cost"])})
    with night.step("sweep of the changed checkout"):
        tree = night.folder / "checkout"
        shutil.rmtree(tree, ignore_errors=True)
        checkout(tree, plant)
        changed = night.kept("changed", lambda: night.records("sweep", *flags, *TIMING, *keep, "changed", tree=tree))
    timed = ("bench", *flags, *TIMING, "--no-check", "--no-store")
    commands = shlex.join((*program(CHECKOUT), *timed)), shlex.join((*program(tree), *timed))
    with night.step("compare"):
        document, page = compared(night, commands, processes, confirm)
    with night.step("report"):
        report = reported(night, exported(night, BEFORE), exported(night, AFTER))
    with night.step("browser"):
        pages = shown((page, report), night.folder)
    planted = {key_of(record["problem"]) for record in swept if record["problem"]["dtype"] == PLANTED}
    judgement = judge(document, rows, planted, builds_of(swept), builds_of(changed), pages)
    facts = {"planted": plant.words, "tried": tried, "slow_down": slow_downs(document, planted)}
    facts |= {"command": shlex.join(("fmha", *timed)), "rows_compared": document["rows"]}
    words = [dict(Counter(word.partition(" ")[0] for word in page.verdicts)) for page in pages]
    told = [{**asdict(page), "verdicts": counts} for page, counts in zip(pages, words, strict=True)]
    return judgement, {**facts, "pages": told}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300, help=f"rows, a multiple of {SHAPES} (default: 300)")
    parser.add_argument("--processes", type=int, default=8, help="of each side for the first look (default: 8)")
    parser.add_argument(
        "--confirm",
        type=int,
        default=CONFIRM,
        help=f"fresh processes of each side for suspicious rows (default: {CONFIRM})",
    )
    parser.add_argument("--plant", choices=("tile", "delay"), default="tile", help="a tile, or a delay (default: tile)")
    parser.add_argument("--folder", type=Path, help="keep everything there, and go on with what is there")
    parser.add_argument("--html", type=Path, metavar="FILE", help="keep the page of fmha report")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything found")
    args = parser.parse_args(argv)
    with ExitStack() as stack:
        folder = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        night = Night(folder.resolve())
        try:
            same_night(night.folder, [args.rows, args.processes, args.confirm, args.plant])
            programs()  # before all the work
            judgement, facts = carried_out(night, args.rows, args.processes, args.confirm, args.plant)
        except (RuntimeError, ValueError, LookupError) as fault:
            print(f"nightly.py: {fault}", file=sys.stderr)
            return 2
        if args.html:
            shutil.copyfile(night.folder / "report.html", args.html)
    print(table(judgement, facts, night.seconds))
    if args.json:
        asked = {"rows": args.rows, "processes": args.processes, "confirm": args.confirm}
        document = {**asked, "passed": judgement.passed, **asdict(judgement), **facts, "seconds": night.seconds}
        args.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return int(not judgement.passed)


if __name__ == "__main__":
    raise SystemExit(main())
