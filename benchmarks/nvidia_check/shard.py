"""One process of the check: ``fmha validate`` over a list of different problems, with one worker for all of them.

    python benchmarks/nvidia_check/shard.py JOB.json

The job names the problems by their flags, the device, the fills, and the output file. Every record is appended to that
file as soon as it is complete, so a killed process loses no finished work. The walk's own journal is next to that file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.problem import Problem
from fmha_cli.report.record import Record
from fmha_cli.walk.request import Command, Request
from fmha_cli.walk.run import run_points


def main() -> int:
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    request = Request(
        command=Command.VALIDATE,
        argv=("validate",),
        backend=job["backend"],
        device=job["device"],
        fills=tuple(job["fills"]),
        fill_seed=job["seed"],
        timeout=job["timeout_s"],
        oracle_s=job["oracle_s"],
        offline=True,
        jobs=1,
        journal=job["records"] + ".journal",
        cache_root=job["cache_root"],
    )
    with Path(job["records"]).open("a", encoding="utf-8") as out:

        def keep(record: Record) -> None:
            out.write(json.dumps(record.to_dict()) + "\n")
            out.flush()

        run_points([Problem.from_cli(line) for line in job["flags"]], request, build_registry(), on_record=keep)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
