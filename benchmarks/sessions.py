"""What a call from Python costs: ``api.session`` in process and through a worker, beside PyTorch's attention.

    python benchmarks/sessions.py [--rounds 300] [--calls 10000] [--against REVISION] [--json FILE]

Every figure is a median over interleaved rounds, with two threads, beside the others of its line. The round trip sends the bytes of
the inputs to a child over a pipe and gets the bytes of the output back. ``--against`` times ``api.attention`` beside that of another
revision, each in a process of its own outside of any repository, where no revision of the user's has to be found. ``--calls`` counts what many calls leave behind: open files,
memory, mappings of the worker. PyTorch's form for a decode step is the fastest of three. Needs torch; random data.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from cpu_turns import Served
from revisions import ROOT, environment_of, require_from, tree_of

from fmha_cli import api

THREADS = 2
_ECHO = "import sys\ni, o = sys.stdin.buffer, sys.stdout.buffer\nwhile i.read({taken}):\n o.write(bytes({given}))\n o.flush()"

_REPEAT = """
import sys
import numpy as np
import fmha_cli
from fmha_cli import api
print(fmha_cli.__file__, flush=True)
q, k, v = (np.random.default_rng(n).standard_normal((1, 8, 128, 64), dtype=np.float32) for n in range(3))
for line in sys.stdin:
    print(api.attention(q, k, v, backend="cpu").verdict, flush=True)
"""
"""Executed with the modules of a tree: one judged call for each line."""


def medians(sides: dict[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of each side: median and the quartiles, over rounds in which every side runs once."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 10):
        for name, run in sides.items():
            start = time.perf_counter()
            run()
            if number >= 10:  # the first rounds load and warm up
                times[name].append((time.perf_counter() - start) * 1e6)
    out = {}
    for name, of in times.items():
        low, middle, high = statistics.quantiles(of, n=4)
        out[name] = {"median": middle, "low": low, "high": high}
    return out


class RoundTrip:
    """A child that takes so many bytes from a pipe, and answers with so many."""

    def __init__(self, taken: int, given: int) -> None:
        self._sent, self._given = os.urandom(taken), given
        command = [sys.executable, "-c", _ECHO.format(taken=taken, given=given)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(self._sent)
        self._child.stdin.flush()
        assert len(self._child.stdout.read(self._given)) == self._given

    def close(self) -> None:
        self._child.kill()
        self._child.wait()


def prefill(torch: Any, rounds: int) -> dict[str, dict[str, float]]:
    """b1 h8 s128 d64 fp32: torch, in process, through the worker, and the pipe."""
    q, k, v = (torch.randn(1, 8, 128, 64) for _ in range(3))
    arrays = [x.numpy() for x in (q, k, v)]
    pipe = RoundTrip(3 * arrays[0].nbytes, arrays[0].nbytes)
    with api.session(backend="cpu", in_process=True) as here, api.session(backend="cpu") as apart:
        try:
            return medians(
                {
                    "torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
                    "in process, torch": lambda: here(q, k, v),
                    "in process, numpy": lambda: here(*arrays),
                    "worker": lambda: apart(*arrays),
                    "pipe": pipe,
                },
                rounds,
            )
        finally:
            pipe.close()


def decode(torch: Any, rounds: int) -> dict[str, dict[str, float]]:
    """b1 h32/8, one query, 8192 keys, d128, bf16: three forms of torch, and in process."""
    q = torch.randn(1, 32, 1, 128).bfloat16()
    k, v = (torch.randn(1, 8, 8192, 128).bfloat16() for _ in range(2))
    wide = [x.repeat_interleave(4, 1) for x in (k, v)]
    attend = torch.nn.functional.scaled_dot_product_attention
    with api.session(backend="cpu", in_process=True) as here:
        return medians(
            {
                "torch, enable_gqa": lambda: attend(q, k, v, enable_gqa=True),
                "torch, repeated heads": lambda: attend(q, *wide),
                "torch, group as rows": lambda: attend(q.view(1, 8, 4, 128), k, v),
                "in process, torch": lambda: here(q, k, v),
            },
            rounds,
        )


@contextmanager
def attending(tree: Path) -> Iterator[Callable[[], None]]:
    """One call of ``api.attention`` of a tree, in a process of its own."""
    with (
        TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-c", _REPEAT],
            cwd=folder,
            env=environment_of(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            one = Served(process)
            require_from(tree, one.read())
            yield partial(_passed, one)
        finally:
            process.terminate()


def _passed(one: Served) -> None:
    if (verdict := one.ask("again")) != "PASSED":
        raise RuntimeError(f"the call ended as {verdict}")


def repeated(rounds: int, against: str | None = None) -> dict[str, dict[str, float]]:
    """``api.attention`` again and again, each call judged; beside it that of another revision."""
    with ExitStack() as stack:
        trees = {"api.attention": ROOT}
        if against is not None:
            trees[f"api.attention, {against}"] = stack.enter_context(tree_of(against))
        return medians({name: stack.enter_context(attending(tree)) for name, tree in trees.items()}, rounds)


def leavings(calls: int) -> dict[str, list[int]]:
    """Open files and resident KiB of this process, and mappings and KiB of the worker: before and after ``calls`` calls."""
    q, k, v = (np.random.default_rng(n).standard_normal((1, 2, 64, 64), dtype=np.float32) for n in range(3))
    with api.session(backend="cpu", in_process=True) as here, api.session(backend="cpu") as apart:

        def held() -> Iterable[int]:
            child = apart._supervisor.worker_pid
            for folder in ("/proc/self", f"/proc/{child}"):
                yield len(os.listdir(f"{folder}/fd"))
                yield len(Path(f"{folder}/maps").read_text().splitlines())
                status = Path(f"{folder}/status").read_text().splitlines()
                yield next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

        def call(count: int) -> list[int]:
            for _ in range(count):
                here(q, k, v)
                apart(q, k, v)
            return list(held())

        names = [
            f"{what} of {whose}" for whose in ("the caller", "the worker") for what in ("files", "mappings", "KiB")
        ]
        return dict(zip(names, map(list, zip(call(500), call(calls), strict=True)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(THREADS)
    before = os.getloadavg()[0]
    found: dict[str, Any] = {
        "prefill": prefill(torch, given.rounds),
        "decode": decode(torch, max(20, given.rounds // 10)),
        "repeated": repeated(max(20, given.rounds // 10), given.against),
        "leavings": leavings(given.calls),
        "load": {"of one minute": [round(before, 1), round(os.getloadavg()[0], 1)]},
    }
    for part, rows in found.items():
        for name, of in rows.items():
            text = (
                " → ".join(map(str, of))
                if isinstance(of, list)
                else f"{of['median']:.0f} µs ({of['low']:.0f} to {of['high']:.0f})"
            )
            print(f"{part:10} {name:24} {text}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
