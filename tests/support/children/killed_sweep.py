"""A journalled sweep whose parent is killed repeatedly at different points. A test runs it.

``python killed_sweep.py FOLDER KILLS ROWS SEED`` prints a JSON report. The sweep runs in forked children of this
process, which stays single-threaded, so a restart costs no imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from fmha_null import backend as null
from fmha_null.kernels import Behaviour, null_kernel

from fmha_cli.domain.journal import JournalRow, Start
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.report.record import Record
from fmha_cli.results.plans import state_of
from fmha_cli.run.arena import Arena
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.judge import JudgePolicy, judge
from fmha_cli.run.layout import layout_of
from fmha_cli.run.supervisor import Supervisor
from tests.support.fault_rows import DEVICE, ENTRY, cases
from tests.support.generators.journals import created, grown, resumed
from tests.support.live_processes import gone

BAD = {7: Behaviour.SEGFAULT, 8: Behaviour.NAN, 23: Behaviour.OOB_AFTER, 40: Behaviour.EXIT}


def key_of(row: int) -> str:
    return f"{row:024x}"


def sweep(folder: Path, rows: int) -> None:
    """Run all rows that the journal does not yet contain."""
    asked = tuple(JournalRow(key=key_of(n), what=f"row {n}") for n in range(rows))
    start = Start(fmha="test", argv=("sweep",), run="0" * 32, started="now", parts={}, rows=asked)
    path = folder / "journal"
    journal = resumed(path, start) if path.exists() else created(path, start)
    policy = JudgePolicy(timeout=60.0)
    with journal, Supervisor() as supervisor:
        for key in journal.state.left:
            journal.planned(key)
            supervisor.start()
            with (folder / "workers").open("a", encoding="ascii") as file:
                file.write(f"{supervisor.worker_pid}\n")
            number = int(key, 16)
            problem = Problem.of(heads=1, seqlen=3 + number % 5, hdim=4, dtype="fp32")
            behaviour = BAD.get(number, Behaviour.HONEST)
            plan = null.plan(problem, null_kernel(problem.dtype, Family.FWD, behaviour), DEVICE)
            artifacts = tuple(null.build(stage, BuildContext(folder / "cache")) for stage in plan.stages)
            with Arena(layout_of(problem)) as arena:
                job = WorkerJob(entry=ENTRY, device=DEVICE, plan=plan, artifacts=artifacts)
                row = judge(supervisor, job, arena, cases(), policy)
            record = Record(problem=problem.to_dict(), repro=problem.repro(), verdict=row.verdict, row=key)
            journal.done({key: record})


def forked(folder: Path, rows: int) -> int:
    """Run the sweep in a child and return its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            sweep(folder, rows)
            status = 0
        finally:
            os._exit(status)
    return child


def main() -> None:
    folder, kills, rows, seed = Path(sys.argv[1]), *(int(text) for text in sys.argv[2:])
    rng = random.Random(seed)
    points = []
    for _ in range(kills):
        child = forked(folder, rows)
        target = grown(folder / "journal") + rng.randrange(8)
        deadline = time.monotonic() + 20.0
        while grown(folder / "journal") < target and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        points.append(grown(folder / "journal"))
    _, status = os.waitpid(forked(folder, rows), 0)
    state = state_of(folder / "journal", None)[1]
    workers = {int(text) for text in (folder / "workers").read_text("ascii").split()}
    report = {
        "status": os.waitstatus_to_exitcode(status),
        "points": points,
        "done": list(state.records),
        "verdicts": [state.records[key].verdict for key in state.start.keys if key in state.records],
        "attempts": state.attempts,
        "orphans": [pid for pid in workers if not gone(pid)],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
