"""Execute Triton's own multi-CTA attention example on the PTX emulator, over the grid of its test, and compare it with float64.

    python benchmarks/gluon_example.py --triton-home FOLDER [--arch A ...] [--length N] [--heads H] [--seeds S ...] [--units U]
                                       [--only TEXT] [--json FILE [--resume]] [--markdown FILE]

The example (``python/examples/gluon/01-attention-forward.py`` of triton-lang/triton) is read from the user's checkout; nothing of it is
kept here. Its own host code chooses the configuration, makes the descriptors and launches; Triton compiles the kernel without a GPU, and this
project's driver launches it on the emulated device. ``--units`` tells it of fewer multiprocessors, so that each program takes several
tiles in turn. O must be within twice one rounding of its type, row by row, the logarithms within 1e-5. The script exits with 1 unless every row
is right. No figure is a GPU time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

SCHEMA = "fmha.gluon-example/1"
ARCHS = ("sm_100a", "sm_103a")
TESTS = Path(__file__).resolve().parents[1] / "plugins" / "fmha-nvptx-emu"
FAULTS = (RuntimeError, AttributeError, AssertionError, TypeError, ValueError, ImportError)
"""What Triton raises for a file of another version: its compiler's error is a RuntimeError, or the interface is another."""
Row = Mapping[str, Any]


def key_of(row: Row) -> tuple[Any, ...]:
    """What a row is a row of."""
    return tuple(row[name] for name in ("revision", "triton", "arch", "point", "length", "heads", "seed", "units"))


def asked(given: argparse.Namespace) -> Iterator[tuple[Row, Any]]:
    """The rows without results, and their points: the smallest problems first."""
    from fmha_nvptx_emu_tests.support.example_attention import example, points, revision

    state, triton = revision(example()), importlib.metadata.version("triton")
    for arch in given.arch:
        for seed in given.seeds:
            for point in sorted(points(arch), key=lambda p: (p.ctas, p.head_dim)):
                row = {
                    "revision": state, "triton": triton, "arch": arch, "point": str(point), **asdict(point), "length": given.length,
                    "heads": given.heads, "seed": seed, "units": given.units,
                }  # fmt: skip
                if given.only in f"{arch} {point}":
                    yield row, point


def executed(row: Row, point: Any, library: Path) -> Row:
    """The row with its results."""
    from fmha_nvptx_emu_tests.support.emulated_triton import emulated_triton
    from fmha_nvptx_emu_tests.support.example_attention import LSE, example, module, run

    with emulated_triton(row["arch"], library, row["seed"], row["units"]) as driver:
        try:
            ran = run(driver, point, row["length"], row["seed"], module(example()), row["heads"])
        except FAULTS as fault:
            return {**row, "verdict": f"NOT COMPILED: {type(fault).__name__}: {str(fault)[:300]}"}
    launched = ran.launched
    return {
        **row,
        "verdict": ran.verdict,
        "error": None if launched.fault else finite(ran.error),
        "budget": ran.budget,
        "lse_error": None if launched.fault else finite(ran.lse_error),
        "lse_budget": LSE,
        "grid": launched.grid,
        "pair": "cta_group::2" in launched.ptx,
        "findings": dict(Counter(str(kind) for kind in launched.kinds)),
        "first": [one.text for one in launched.observed.findings[:1]],
        "instructions": launched.instructions,
    }


def finite(error: float) -> float | None:
    """The error, or None where something was not written or is no number: JSON has no infinity."""
    return error if math.isfinite(error) else None


def table(rows: Sequence[Row]) -> str:
    """Markdown: for each state of the example, a line for each launch."""
    lines = []
    for state in dict.fromkeys((row["revision"], row["triton"]) for row in rows):
        some = [row for row in rows if (row["revision"], row["triton"]) == state]
        right = sum(row["verdict"] == "right" for row in some)
        numbers = sum(within(row) for row in some)
        said = f"{right} of {len(some)} launches are right; the numbers of {numbers} are"
        lines += [
            f"{state[0]}, Triton {state[1]}: {said}.", "",
            "| device | kernel | heads x rows | CTAs | O (of its budget) | logarithms | instructions | verdict |", "|---|---|---|---|---|---|---|---|",
            *map(_line, some), "",
        ]  # fmt: skip
    return "\n".join(lines)


def within(row: Row) -> bool:
    """Whether O and the logarithms are within their budgets, findings or none."""
    pairs = ((row.get("error"), row.get("budget")), (row.get("lse_error"), row.get("lse_budget")))
    return all(error is not None and budget is not None and error < budget for error, budget in pairs)


def _line(row: Row) -> str:
    error, sums = row.get("error"), row.get("lse_error")
    size = f"{row['heads']} x {row['length']}{', seed ' + str(row['seed']) if row['seed'] else ''}"
    if row["units"]:
        size += f", {row['units']} multiprocessors"
    none = "not all written" if row["verdict"] == "WRONG" else "-"
    o = f"{error:.1e} ({error / row['budget']:.0%})" if error is not None else none
    found = ", ".join(f"`{kind}` {count}" for kind, count in row.get("findings", {}).items())
    verdict = re.sub(r"\{[^}]*\}", "{...}", row["verdict"]) if row["verdict"] != "FINDING" else found
    cells = (
        f"emu:{row['arch']}", row["point"].rpartition(", ")[0], size, row["ctas"], o, f"{sums:.1e}" if sums is not None else none,
        f"{row.get('instructions', 0):,}", verdict,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    """Run the script. Returns 0 if every row is right."""
    if importlib.util.find_spec("fmha_nvptx_emu_tests") is None:
        places = [str(TESTS), str(TESTS.parents[1]), os.environ.get("PYTHONPATH", "")]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        return subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=environ, check=False).returncode
    from fmha_nvptx_emu_tests.support.example_attention import VARIABLE, example
    from fmha_nvptx_emu_tests.support.ptx_machine import library

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton-home", type=Path, metavar="FOLDER", help="a checkout of triton-lang/triton")
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--length", type=int, default=1024, help="rows and keys of a head")
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the data and the order of warps")
    parser.add_argument("--units", type=int, help="multiprocessors that the example is told of")
    parser.add_argument("--only", default="", help="points whose device and name hold this text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, after each one")
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file of --json")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    given = parser.parse_args()
    if given.triton_home:
        os.environ[VARIABLE] = str(given.triton_home)
    try:
        example()
    except ValueError as fault:
        parser.error(str(fault))
    old = (
        json.loads(given.json.read_text("utf-8"))["rows"] if given.resume and given.json and given.json.exists() else []
    )
    rows, built = {key_of(row): row for row in old}, Path(library()._name)
    wanted = []
    for row, point in asked(given):
        key = key_of(row)
        wanted.append(key)
        if key not in rows:
            rows[key] = executed(row, point, built)
            print(f"{rows[key]['verdict']:8} {row['arch']} {point} {rows[key].get('findings') or ''}", flush=True)
            if given.json:
                document = {"schema": SCHEMA, "rows": list(rows.values())}
                given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(table(list(rows.values())), "utf-8")
    return int(not wanted or any(rows[key]["verdict"] != "right" for key in wanted))


if __name__ == "__main__":
    sys.exit(main())
