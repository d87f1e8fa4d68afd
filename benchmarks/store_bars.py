"""The bars of the store: bytes for each record, and the time of the query over all runs, at a million records.

The records are real rows of ``fmha bench`` on this machine's CPU, for a thousand problems of other sizes. Each is measured again
in several ways: its samples are drawn again from the measured ones, scaled by a drift, and what changes from row to row
(clock, ceiling, regret) does. The store's own functions pack them. A run takes one of the ways of each row; only the
rows of the table ``record`` are written many at once.

    python benchmarks/store_bars.py --records 1000000 --store /tmp/bars.sqlite --json store.json
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmha_cli import api
from fmha_cli.bench.measurement import Measurement
from fmha_cli.bench.stats import median, median_interval, quantile
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import canonical_json, digest_of
from fmha_cli.report.parts import RunRow, no_environment
from fmha_cli.report.record import Record
from fmha_cli.results.loading import records_of, summaries
from fmha_cli.results.packing import packed_samples, packed_text
from fmha_cli.results.parts import RowPlace, taken_apart
from fmha_cli.results.queries import history
from fmha_cli.results.store import Store
from fmha_cli.results.writing import put_record, put_run
from fmha_cli.run.origin import this_host

SAMPLES = 60
POINTS = 1000
"""Rows of a run: each is another problem, or another kernel for it."""

WAYS = 20
"""In how many ways each row is measured again."""

MOST_BYTES, LONGEST_S = 500, 1.0
ASKED = 9


def real_rows() -> list[Record]:
    """Timed rows of this machine's CPU, kernels and types apart."""
    sweep = [
        api.Problem.of(batch=1, heads=2, seqlen=seqlen, hdim=64, dtype=dtype, causal=causal)
        for dtype in ("fp32", "bf16")
        for seqlen in (64, 128)
        for causal in (False, True)
    ]
    rows = [row for problem in sweep for row in api.run(problem, command="bench", budget_s=0.2, all_kernels=True)]
    return [row for row in rows if row.measurement is not None]


def drawn(row: Record, draw: random.Random, drift: float) -> Measurement:
    """As many samples as the bar is about, drawn from those of a row."""
    measured = row.measurement
    assert measured is not None
    launches = tuple((round(draw.choice(measured.samples_ns) * drift * draw.gauss(1, 0.01)),) for _ in range(SAMPLES))
    return replace(measured, launches=launches, process_of_sample=None)


def points_of(rows: list[Record]) -> list[Record]:
    """The rows of a run: the real ones, each with other numbers of sequences and heads."""
    found = []
    for number in range(POINTS):
        row = rows[number % len(rows)]
        size = number // len(rows)
        problem = {**row.problem, "batch": 1 + size % 8, "heads": 2 * (1 + size // 8), "kv_heads": 2 * (1 + size // 8)}
        flags = f"-b {problem['batch']} -H {problem['heads']}"
        found.append(replace(row, problem=problem, repro=row.repro.replace("fmha bench", f"fmha bench {flags}")))
    return found


def run_of(number: int) -> RunRow:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_700_000_000 + 86400 * number))
    return RunRow(
        id=digest_of(number)[:32],
        command="bench",
        started=moment,
        label=f"night {number}",
        revision=digest_of([number])[:40],
        dirty=False,
    )


def fill(store: Store, points: list[Record], count: int) -> dict[str, float]:
    """Write the records: the first run one by one as a command does, the others with the same bytes in batches."""
    draw = random.Random(1)
    started = time.process_time()
    with store.transaction() as db:
        run = put_run(db, run_of(0), argv=("bench", "--all-kernels"), environment=no_environment())
    for number, point in enumerate(points):
        measured = drawn(point, draw, 1.0)
        stages = tuple(replace(stage, time_ns=measured.median_ns) for stage in point.stages)
        row = replace(point, run=run.about, row=digest_of(number)[:24], measurement=measured, stages=stages)
        with store.transaction() as db:
            put_record(store, db, run, row, str(row.row))
    each = (time.process_time() - started) / len(points)
    columns = [name for _, name, *_ in store.connection.execute("pragma table_info(record)") if name != "id"]
    first = store.connection.execute(f"select {', '.join(columns)} from record order by id").fetchall()
    contents = dict(store.connection.execute("select id, content from dictionary"))
    nowhere = RowPlace(run=None, key="", started=None)
    rests = [dict(taken_apart(point, nowhere).rest) for point in points]
    insert = f"insert into record({', '.join(columns)}) values ({', '.join('?' * len(columns))})"
    started = time.process_time()
    told = [
        [_again(dict(zip(columns, row, strict=True)), point, rest, contents, draw) for _ in range(WAYS)]
        for row, point, rest in zip(first, points, rests, strict=True)
    ]
    packing = (time.process_time() - started) / (WAYS * len(points))
    run_at, start_at = columns.index("run"), columns.index("started")
    started = time.process_time()
    for number in range(1, count // len(points)):
        with store.transaction() as db:
            kept = put_run(db, run_of(number), argv=("bench", "--all-kernels"), environment=no_environment())
            rows = [list(draw.choice(ways)) for ways in told]
            for row in rows:
                row[run_at], row[start_at] = kept.id, 1_700_000_000 + 86400 * number + draw.randrange(80_000)
            db.executemany(insert, rows)
            db.execute(
                "insert into tally select run, verdict, device, count(*) from record where run = ? group by run, verdict, device",
                (kept.id,),
            )
        if number % 50 == 0:
            print(f"{number * len(points):,} records", file=sys.stderr, flush=True)
    batch = (time.process_time() - started) / max(1, count - len(points))
    return {"write_one_s": each, "pack_s": packing, "write_batch_s": batch}


def _again(
    told: dict[str, Any], point: Record, rest: dict[str, Any], contents: dict[int, bytes], draw: random.Random
) -> tuple[Any, ...]:
    """A row of the table like the first run's, with its own times."""
    measured = drawn(point, draw, draw.gauss(1, 0.03))
    samples = measured.samples_ns
    rest = {name: value for name, value in rest.items() if name not in ("own", "run")}
    if point.regret is not None:
        rest |= {"regret": draw.random() / 10, "regret_ci95": [draw.random() / 10, draw.random()]}
    how = {**rest["measurement"], "warmup": draw.randrange(3, 50)}
    if measured.ceiling is not None:
        how["ceiling"] = {
            **to_json(measured.ceiling),
            "before": draw.gauss(1, 0.1) * 1e11,
            "after": 1e11 * draw.random(),
        }
    rest["measurement"] = how
    ends = median_interval(samples) or (None, None)
    told |= {"median_ns": median(samples), "whole_ns": median(samples)}
    told |= {"q10_ns": round(quantile(samples, 0.1)), "ci_lo": ends[0], "ci_hi": ends[1], "n": len(samples)}
    told |= {"tflops": measured.tflops, "gbps": measured.gbps, "peak_fraction": measured.peak_fraction}
    told |= {
        "regret": rest.get("regret"),
        "clock_mhz": 2600 + draw.random() * 100,
        "temp_c": draw.randrange(400, 900) / 10,
    }
    told |= {
        "samples": packed_samples([samples]),
        "rest": packed_text(canonical_json(rest), contents[told["dictionary"]]),
    }
    return tuple(told.values())


def timed(ask: Callable[[], object]) -> dict[str, float]:
    """Seconds of the first time, and of the median of later ones."""
    seconds = []
    for _ in range(ASKED):
        started = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - started)
    return {"first_s": seconds[0], "warm_s": statistics.median(seconds[1:])}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--records", type=int, default=20_000)
    asked.add_argument("--store", type=Path, required=True)
    asked.add_argument("--json", type=Path)
    given = asked.parse_args()
    if given.store.exists():
        asked.error(f"{given.store} exists")
    rows = real_rows()
    points = points_of(rows)
    with Store.open(given.store) as store:
        costs = fill(store, points, given.records)
    with Store.open(given.store) as store:  # the write-ahead log is folded in now
        (records,) = store.connection.execute("select count(*) from record").fetchone()
        runs = records // len(points)
        assert len(history(store, points[17])) == runs
        times = {"history of a point": timed(lambda: history(store, points[17]))}
        times["list of the runs"] = timed(lambda: summaries(store))
        newest = summaries(store)[0]
        times["records of a run"] = timed(lambda: records_of(store, newest))
        assert len(records_of(store, newest)) == len(points)
    size = given.store.stat().st_size
    found = {
        "records": records,
        "runs": runs,
        "problems": len({canonical_json(dict(point.problem)) for point in points}),
        "real_rows": len(rows),
        "samples": SAMPLES,
        "json_bytes": round(statistics.mean(len(canonical_json(row.to_dict())) for row in rows)),
        "file_bytes": size,
        "bytes_a_record": size / records,
        "host": this_host().text,
        "queries": times,
        **costs,
    }
    text = json.dumps(found, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n")
    slow = times["history of a point"]["warm_s"] > LONGEST_S
    return int(found["bytes_a_record"] > MOST_BYTES or slow)


if __name__ == "__main__":
    raise SystemExit(main())
