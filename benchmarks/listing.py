"""Compare what lists and look-ups of kernels cost here and in another revision: user and system time, interleaved rounds.

    python benchmarks/listing.py REVISION [--rounds 9] [--json FILE]

Each side has a cache of its own, which its first round fills; that round does not count. The output of both sides is
compared too. Goals, as shares of revision a601fc55: the list of all kernels as a table 0.25, a digest that no kernel has
0.25, the list of gfx942 as JSON 0.5.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from revisions import ROOT, environment_of, tree_of

from fmha_cli.bench.stats import median, ratio_interval

COMMANDS = {
    "list-kernels": 0.25,
    "run --kernel 00000000 -s 64": 0.25,
    "list-kernels --arch gfx942 --json": 0.5,
}
"""Each command with the share of the other revision's time that it may take."""


def run_once(tree: Path, home: Path, words: Sequence[str]) -> tuple[int, bytes]:
    """The processor time of one command in nanoseconds, with that of its children, and all that it printed."""
    environ = {**environment_of(tree), "HOME": str(home)}
    for name in ("PYTHONDONTWRITEBYTECODE", "XDG_CACHE_HOME", "FMHA_CACHE_DIR"):
        environ.pop(name, None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "fmha_cli", *words]
    done = subprocess.run(command, env=environ, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return round(seconds * 1e9), done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write every sample")
    chosen = parser.parse_args()
    samples: dict[str, tuple[list[int], list[int]]] = {command: ([], []) for command in COMMANDS}
    with tree_of(chosen.revision) as other, tempfile.TemporaryDirectory() as folder:
        sides = [(tree, Path(folder, str(number))) for number, tree in enumerate((other, ROOT))]
        for _, home in sides:
            home.mkdir()
        for number in range(-1, chosen.rounds):
            for command, taken in samples.items():
                order = (0, 1) if number % 2 else (1, 0)
                told: dict[int, bytes] = {}
                for side in order:
                    spent, told[side] = run_once(*sides[side], command.split())
                    taken[side].extend([spent] if number >= 0 else [])
                if number >= 0 and told[0] != told[1]:
                    sys.exit(f"fmha {command} prints something else than at {chosen.revision}")
    print("| fmha | there [s] | here [s] | share | 95 % interval | goal | |\n|---|---|---|---|---|---|---|")
    for command, (there, here) in samples.items():
        share, ends = median(here) / median(there), ratio_interval(here, there, paired=True)
        shown = "" if ends is None else f"{ends[0]:.3f}-{ends[1]:.3f}"
        row = f"{median(there) / 1e9:.3f} | {median(here) / 1e9:.3f} | {share:.3f} | {shown}"
        print(f"| {command} | {row} | {COMMANDS[command]} | {'met' if share <= COMMANDS[command] else 'NOT MET'} |")
    if chosen.json:
        chosen.json.write_text(json.dumps(samples, indent=1, sort_keys=True), "utf-8")


if __name__ == "__main__":
    main()
