"""Interleave the timing of this checkout's CPU kernels and another revision's: the problems of ``cpu_attention.py``, on
this machine.

    python benchmarks/cpu_turns.py bca9458 [--only "forward fp32"] [--rounds 9] [--threads 1] [--arch x86_64_v3]

Each revision has a process of its own, with its own generator, flags and settings. In each round both run a problem once, in a random
order, led by a launch that does not count. The ratio is the time of this checkout divided by that of the other revision: the median
over the rounds with its 95 % interval. A busy host slows both, so ratios are worth more than the times next to them.
With one thread, times are processor time; with more they are wall time and need a quiet machine.

The last line has the geometric mean of the ratios. ``--arch`` holds both to a lesser set of instructions. Before timing, the outputs of both are compared. A problem that only one of them serves is listed with the reason. The script
ends with 1 if outputs differ. Needs git.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from contenders import ISAS, allowed_difference
from cpu_cells import cells
from revisions import ROOT, environment_of, require_from, tree_of

from fmha_cli.bench.stats import median_interval
from fmha_cli.domain.problem import Problem

_SERVE = """
import sys, time
import numpy as np
import fmha_cli
import contenders
from fmha_cli.domain.problem import Problem
threads, clock = int(sys.argv[1]), time.process_time if sys.argv[1] == "1" else time.perf_counter
isa = next((name for name, one in contenders.ISAS.items() if one.arch == sys.argv[2]), None)
print(fmha_cli.__file__, flush=True)
for line in sys.stdin:
    path, _, flags = line.strip().partition(" ")
    try:
        problem = Problem.from_cli(flags)
        one = contenders.ours(problem, contenders.tensors(problem), threads, isa)
        one.run()
        np.save(path, one.output().astype(np.float32))  # a file cannot hold bf16
    except Exception as error:
        print("refused", type(error).__name__, str(error).splitlines()[:1], flush=True)
        continue
    start = time.perf_counter()
    one.run()
    repeats = max(1, int(0.05 / max(time.perf_counter() - start, 1e-6)))
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "next":
            break
        one.run()
        start = clock()
        for _ in range(repeats):
            one.run()
        print((clock() - start) / repeats, flush=True)
"""
"""Executed with the modules of each tree: serves one problem after the other."""


class Served:
    """The process that runs the kernels of one tree."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, line: str) -> str:
        """Send a line and read the answer. Raises RuntimeError if the process ended, whose own words are on standard error."""
        self.tell(line)
        answer = self.read()
        if not answer:
            raise RuntimeError(f"the process of a revision ended, asked for: {line}")
        return answer

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def served(tree: Path, threads: int, arch: str) -> Iterator[Served]:
    """A process with the modules of a tree. Raises RuntimeError if it imported others."""
    command = [sys.executable, "-c", _SERVE, str(threads), arch]
    with subprocess.Popen(
        command, cwd=tree, env=environment_of(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            one = Served(process)
            require_from(tree, one.read())
            yield one
        finally:
            process.terminate()


@dataclass(frozen=True)
class Turns:
    """Seconds of the two revisions for each round, the other revision's first."""

    before: tuple[float, ...]
    now: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """The time of this checkout divided by the other's, for each round."""
        return [now / before for before, now in zip(self.before, self.now, strict=True)]

    def row(self) -> list[str]:
        """Milliseconds of this checkout, and the ratio of the two with its interval."""
        ends = median_interval(self.ratios)
        return [
            f"{1e3 * np.median(self.now):.3f}",
            f"x{np.median(self.ratios):.3f}",
            "" if ends is None else f"{ends[0]:.3f}-{ends[1]:.3f}",
        ]


def turns(flags: str, two: Sequence[Served], folder: Path, rounds: int, draw: random.Random) -> Turns | str:
    """Both revisions on a problem, or why there is no comparison."""
    outputs = [folder / "before.npy", folder / "now.npy"]
    answers = [one.ask(f"{path} {flags}") for one, path in zip(two, outputs, strict=True)]
    try:
        for name, answer in zip(("the other revision", "this one"), answers, strict=True):
            if answer != "ready":
                return f"{name} {answer}"
        before, now = (np.load(path).astype(np.float64) for path in outputs)
        error, limit = float(np.abs(before - now).max()), allowed_difference(Problem.from_cli(flags))
        if not error <= limit:
            return f"outputs differ by {error:.3g}, {limit:.3g} is allowed"
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for place in draw.sample((0, 1), 2):
                taken[place].append(float(two[place].ask("again")))
        return Turns(tuple(taken[0]), tuple(taken[1]))
    finally:
        for one, answer in zip(two, answers, strict=True):
            if answer == "ready":
                one.tell("next")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--only", default="", help="regimes or flags that contain this text")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    archs = sorted(isa.arch for isa in ISAS.values())
    parser.add_argument("--arch", choices=archs, default="", help="the architecture whose kernels run")
    given = parser.parse_args(argv)
    flags = dict.fromkeys(c.flags for c in cells() if c.isa is None and given.only in f"{c.regime} {c.flags}")
    if not flags or given.rounds < 1 or given.threads < 1:
        parser.error("--rounds and --threads are at least 1" if flags else f"no regime or problem has {given.only!r}")
    draw = random.Random(0)
    differ, medians = 0, []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        trees = (stack.enter_context(tree_of(given.revision)), ROOT)
        two = [stack.enter_context(served(tree, given.threads, given.arch)) for tree in trees]
        print(f"| problem | ms | time of this checkout / {given.revision} | 95 % |\n|---|---|---|---|", flush=True)
        for one in flags:
            found = turns(one, two, folder, given.rounds, draw)
            differ += isinstance(found, str) and found.startswith("outputs differ")
            if isinstance(found, Turns):
                medians.append(float(np.median(found.ratios)))
            cells_of = ["", "", found] if isinstance(found, str) else found.row()
            print(f"| `{one}` | " + " | ".join(cells_of) + " |", flush=True)
    if medians:
        print(f"\ngeometric mean of {len(medians)} problems: x{np.exp(np.log(medians).mean()):.3f}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
