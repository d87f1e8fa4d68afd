"""A nightly job on the CPU backend, whose right answer is known: a kernel gets slower, and the report must say which rows did.

1. ``fmha sweep`` checks and times all rows and keeps them in a separate store.
2. A copy of the checkout gets another tile for one type's kernel: the variant of ``fmha list-kernels --tuning`` whose cost is nearest to 10 % on
   this machine, or a delay of 10 % where none is near. ``fmha sweep`` checks the rows of the copy.
3. ``fmha compare --run A --run B`` interleaves runs of both, in two stages, and writes a page.
4. ``fmha report --compare`` makes a page of the same processes from their stored runs.
5. A headless Chromium opens both pages.

A night is good if every row of the changed kernel is SLOWER, and no other row is SLOWER or FASTER. What is finished stays in ``.checks/nightly``,
down to each turn of the comparison: the same command goes on there after an interruption.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from fmha_cli.run.origin import this_host
from tests.checks.check import ROOT, Check, Row, product
from tests.support.children import nightly_turn
from tests.support.planted.slow_kernel import CHECKOUT, CONSTANTS, KIND, PACKAGES, Plant, checkout, cost_of, nearest
from tests.support.referees.nightly import Judgement, Shown, builds_of, judge, key_of, slow_downs, table
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
FOLDER = ROOT / ".checks" / "nightly"

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
        seconds: the time of each step.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """The findings of a step, as JSON values: now, or in an earlier session."""
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
        """The output of a command. Raises RuntimeError: it ended with another exit code."""
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
    """This one without settings of ``fmha`` but the place of its caches, so the user's store stays out."""
    return {name: text for name, text in os.environ.items() if not name.startswith("FMHA_") or name == "FMHA_CACHE_DIR"}


def flags_of(rows: int) -> tuple[str, ...]:
    """Problem flags of so many rows: whole multiples of the planted kernel's tile, so it affects each row alike.

    Raises:
        ValueError: the number is not a multiple of 12.
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
    """The fault to plant, and the cost of every tile that was tried."""
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
    """The document and the page of ``fmha compare`` with interleaved commands."""
    page, session = night.folder / "compare.html", night.folder / "session"
    shutil.rmtree(session, ignore_errors=True)
    turn = (sys.executable, "-P", nightly_turn.__file__, str(night.folder / "turns"), str(session))
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
    """All steps, and their findings in addition to the judgement."""
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


@dataclass(frozen=True)
class NightlyJob:
    """One job: ``rows``, a multiple of 12; ``processes`` of each side for the first look, ``confirm`` for suspicious rows; a tile or a delay."""

    rows: int
    processes: int
    confirm: int
    plant: str

    @property
    def name(self) -> str:
        return f"{self.rows} rows, a {self.plant}, {self.processes} and {self.confirm} processes"


JOBS = (NightlyJob(300, 8, CONFIRM, "tile"), NightlyJob(300, 8, CONFIRM, "delay"), NightlyJob(12, 8, CONFIRM, "delay"))


def row_of(job: NightlyJob, folder: Path = FOLDER) -> Row:
    """Run a job. Raises an error that the runner takes for a refusal: it is not judged."""
    night = Night(folder / f"{job.rows}-{job.plant}")
    same_night(night.folder, list(asdict(job).values()))
    try:
        programs()  # before all the work
        judgement, facts = carried_out(night, job.rows, job.processes, job.confirm, job.plant)
    except RuntimeError as fault:
        raise ValueError(str(fault)) from fault
    return {
        **asdict(job), **facts, **asdict(judgement), "passed": judgement.passed, "plant_words": facts["planted"], "seconds": night.seconds,
    }  # fmt: skip


def summary(rows: Sequence[Row]) -> str:
    """The summary of each job for people."""
    members = [field.name for field in fields(Judgement)]
    texts = (
        table(
            Judgement(**{name: row[name] for name in members}), {**row, "planted": row["plant_words"]}, row["seconds"]
        )
        for row in rows
    )
    return "\n\n".join(texts)


CHECK = Check(
    cases=lambda: JOBS,
    name=lambda job: job.name,
    carry_out=row_of,
    depends=lambda job: [this_host().text, product()],
    good=lambda row: bool(row["passed"]),
    by=("rows", "passed"),
    summarise=summary,
)
