"""How much tuning gains on this machine's CPU, and what halving loses against sampling everything.

    python benchmarks/tuning.py measure --json results/data/tuning.json.xz --resume [--shapes 200] [--exhaustive 40] [--for SECONDS]
    python benchmarks/tuning.py table results/data/tuning.json.xz
    python benchmarks/tuning.py learn results/data/tuning.json.xz

``measure`` takes shapes in a fixed order. For each it builds the kernels that ``fmha tune`` would try, searches by
halving, and then interleaves two further timings of the default with one of the winner, with samples that had no part
in the choice (``holdout``). The default against itself is the noise of the machine. The first shapes are searched
exhaustively too, after halving and with separate samples. ``--for`` ends after so many seconds, and ``--resume`` goes
on. Every tenth shape is checked against the reference.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import mean, median
from typing import Any

from fmha_cli.bench.roofline import CacheState
from fmha_cli.bench.search import Method, Policy, SearchResult, level, search
from fmha_cli.bench.stats import quantile
from fmha_cli.discovery.registry import build_registry
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.run.builds import build_context
from fmha_cli.run.execute import Executor
from fmha_cli.run.origin import this_host
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Command, Context, Request
from fmha_cli.run.supervisor import Supervisor
from fmha_cli.tune.candidates import build_within, candidates_of
from fmha_cli.tune.sampling import Contender, KernelSampler, Ring

SEED = 16
HOLDOUT, VISIT = 30, 5
RESAMPLES = 2000


def shapes(count: int) -> Iterator[Problem]:
    """Prefill and decode problems of fp32 and bf16 whose launches take up to a few milliseconds, each once."""
    draw, seen = random.Random(SEED), set[str]()
    while len(seen) < count:
        dtype = draw.choice(("fp32", "bf16"))
        hdim = draw.choice((32, 64, 80, 128))
        flags: dict[str, Any] = {"dtype": dtype, "hdim": hdim, "heads": draw.choice((1, 2, 4))}
        if draw.random() < 0.7:
            flags |= {"seqlen": draw.choice((64, 96, 128, 200, 256, 384, 512)), "causal": draw.random() < 0.5}
        else:
            flags |= {"seqlen": draw.choice((1, 4, 16)), "seqlen_k": draw.choice((256, 512, 1024, 2048, 4096))}
        problem = Problem.of(**flags)
        if problem.digest not in seen:
            seen.add(problem.digest)
            yield problem


def found_of(found: SearchResult, seconds: float) -> dict[str, Any]:
    """The result of a search: the best first, with the level and the number of samples of every kernel."""
    return {
        "order": found.order,
        "levels_ns": [round(level(samples)) if samples else None for samples in found.samples],
        "samples": [len(samples) for samples in found.samples],
        "stop": found.stop.value,
        "seconds": round(seconds, 3),
    }


def searched(good: Sequence[Contender], method: Method) -> tuple[SearchResult, dict[str, Any]]:
    """One search, and its form in the file."""
    start = time.perf_counter()
    found = search(len(good), KernelSampler(good), method)
    return found, found_of(found, time.perf_counter() - start)


def holdout(good: Sequence[Contender], default: int, winner: int) -> dict[str, list[int]]:
    """Interleaved fresh samples of the default, of the default again, and of the winner."""
    sides = {"default": default, "again": default, "winner": winner}
    sampler = KernelSampler(good)
    out: dict[str, list[int]] = {name: [] for name in sides}
    forward = True
    while len(out["winner"]) < HOLDOUT:
        for name in sides if forward else reversed(sides):
            out[name].extend(sampler.take(sides[name], VISIT))
        forward = not forward
    return out


class Bench:
    """The common part of all shapes."""

    def __init__(self, stack: ExitStack, threads: int) -> None:
        self.request = Request(command=Command.BENCH, backend="cpu", threads=threads)
        self.registry = build_registry()
        self.supervisor = stack.enter_context(Supervisor())
        self.found = probe_backends(self.registry, [self.registry.backend("cpu")], self.supervisor)
        self.building = build_context(self.request, Voice(lambda text: print(text, file=sys.stderr)))

    def measure(self, number: int, problem: Problem, *, exhaustive: bool) -> dict[str, Any]:
        """The row of one shape."""
        request = replace(self.request, check=number % 10 == 0)
        context = Context(request=request, registry=self.registry, supervisor=self.supervisor, building=self.building)
        candidates = candidates_of(problem, self.registry, self.found, request.wanted)
        rows = candidates.rows(self.registry, CacheState.HOT, number)
        built = build_within(rows, self.registry, self.building, None)
        executor = Executor(context)
        start = time.perf_counter()
        with Ring(context, executor) as ring, self.supervisor.holding(len(rows)):
            entered = [ring.enter(row, built) for row in rows]
            judged = time.perf_counter() - start
            good = [one for one in entered if one.launch is not None]
            found, halving = searched(good, Method.HALVING)
            row: dict[str, Any] = {
                "number": number,
                "flags": problem.repro(),
                "problem": problem.to_dict(),
                "kernels": [one.row.choice.kernel.name for one in good if one.row.choice is not None],
                "bad": [one.fate.verdict.value for one in entered if one.launch is None],
                "judged_seconds": round(judged, 3),
                "halving": halving,
                "holdout": holdout(good, 0, found.order[0]),
            }
            if exhaustive:
                row["exhaustive"] = searched(good, Method.EXHAUSTIVE)[1]
        return row


def read(path: Path) -> dict[str, Any]:
    """The file so far. Kernels stand there once; rows have their numbers."""
    data: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {"rows": []}
    names = data.pop("kernels", ())
    for row in data["rows"]:
        row["kernels"] = [names[one] if isinstance(one, int) else one for one in row["kernels"]]
        row["problem"] = Problem.from_cli(row["flags"]).to_dict()
    return data


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the file."""
    names = sorted({name for row in data["rows"] for name in row["kernels"]})
    places = {name: place for place, name in enumerate(names)}
    rows = [{**row, "kernels": [places[name] for name in row["kernels"]]} for row in data["rows"]]
    for row in rows:
        row.pop("problem", None)
    scratch = path.with_suffix(".part")
    scratch.write_bytes(lzma.compress(json.dumps({**data, "kernels": names, "rows": rows}).encode()))
    scratch.replace(path)


def measure(asked: argparse.Namespace) -> None:
    """Measure the missing shapes, and write the file after every shape."""
    data = read(asked.json) if asked.resume else {"rows": []}
    done = {row["number"] for row in data["rows"]}
    host = this_host()
    data |= {"host": host.text, "threads": asked.threads, "policy": vars(Policy()), "compilers": dict(host.compilers)}
    end = time.monotonic() + asked.seconds if asked.seconds else None
    with ExitStack() as stack:
        bench = Bench(stack, asked.threads)
        for number, problem in enumerate(shapes(asked.shapes)):
            if number in done:
                continue
            if end is not None and time.monotonic() >= end:
                break
            data["rows"].append(bench.measure(number, problem, exhaustive=number < asked.exhaustive))
            write(asked.json, data)
            print(f"{number + 1} of {asked.shapes}: {problem.repro()}", file=sys.stderr)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the mean over shapes."""
    draw = random.Random(SEED)
    means = [mean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return quantile(means, 0.025), quantile(means, 0.975)


def share(values: Sequence[float]) -> str:
    """Mean, interval and 95 % quantile in per cent."""
    low, high = interval(values)
    return f"{mean(values) * 100:.1f} [{low * 100:.1f}, {high * 100:.1f}] | {quantile(values, 0.95) * 100:.1f}"


def gains(rows: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """For each shape, by what share the default takes longer than the winner, and than itself (the noise)."""
    levels = [{name: level(samples) for name, samples in row["holdout"].items()} for row in rows]
    return (
        [one["default"] / one["winner"] - 1 for one in levels],
        [one["default"] / one["again"] - 1 for one in levels],
    )


def regrets(row: Mapping[str, Any]) -> dict[str, float]:
    """Of the default and of halving's choice, against the best of the exhaustive search."""
    levels = row["exhaustive"]["levels_ns"]
    best = min(ns for ns in levels if ns is not None)
    return {"default": levels[0] / best - 1, "halving": levels[row["halving"]["order"][0]] / best - 1}


def table(asked: argparse.Namespace) -> None:
    """Print the figures of the page."""
    data = read(asked.json)
    rows = data["rows"]
    both = [row for row in rows if "exhaustive" in row]
    won, noise = gains(rows)
    most = data["policy"]["most"]
    shares = [sum(row["halving"]["samples"]) / (len(row["kernels"]) * most) for row in rows]
    print(f"{len(rows)} shapes, {len(both)} of them exhaustively; {data['host']}, {data['threads']} thread(s)")
    print(
        f"kernels: {min(len(r['kernels']) for r in rows)} to {max(len(r['kernels']) for r in rows)}; refused or wrong: {sum(len(r['bad']) for r in rows)}"
    )
    print(f"noise, |default / default again - 1|: {share(list(map(abs, noise)))}")
    print(f"gain of the winner over the default, holdout: {share(won)}; median {median(won) * 100:.1f}")
    bar = quantile(list(map(abs, noise)), 0.95)
    print(
        f"shapes whose gain is beyond the noise's 95 % quantile ({bar * 100:.1f} %): {sum(one > bar for one in won)}; below it: {sum(one < -bar for one in won)}"
    )
    print(f"winner is the default: {sum(row['halving']['order'][0] == 0 for row in rows)}")
    print(f"samples of halving: {share(shares)}")
    if both:
        for name in ("default", "halving"):
            print(f"regret of {name} | p95: {share([regrets(row)[name] for row in both])}")
        times = [row["halving"]["seconds"] / row["exhaustive"]["seconds"] for row in both]
        print(f"time of halving / exhaustive: {share(times)}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("measure")
    one.add_argument("--json", type=Path, required=True)
    one.add_argument("--resume", action="store_true")
    one.add_argument("--shapes", type=int, default=200)
    one.add_argument("--exhaustive", type=int, default=40)
    one.add_argument("--threads", type=int, default=1)
    one.add_argument("--for", type=float, dest="seconds")
    one.set_defaults(run=measure)
    two = parts.add_parser("table")
    two.add_argument("json", type=Path)
    two.set_defaults(run=table)
    three = parts.add_parser("learn")
    three.add_argument("json", type=Path)
    three.set_defaults(run=learn)
    asked = parser.parse_args()
    asked.run(asked)


def learn(asked: argparse.Namespace) -> None:
    """Judge learned choices by leave-one-shape-out regret."""
    from tuning_learned import judged

    if find_spec("sklearn") is None:
        raise SystemExit('scikit-learn is not installed: pip install "fmha[tune]"')
    rows = read(asked.json)["rows"]
    for name, values in judged(rows).items():
        print(f"{name}: regret | p95: {share(values)}")


if __name__ == "__main__":
    main()
