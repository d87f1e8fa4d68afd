"""Execute the Blackwell kernel in Gluon on emulated devices, over kinds, lengths and CTAs, and judge what it computes.

    python benchmarks/blackwell_check.py [--arch A ...] [--only TEXT] [--first N] [--json FILE [--resume]] [--markdown FILE]

``blackwell_cases.py`` has the problems, ``triton_check.py`` the walk: each is chosen, compiled, executed and judged as with ``fmha run``. A row counts
only if the plugin's Blackwell kernel was chosen; the number of its CTAs is the plan's, or that of a case that names one, as with ``--kernel``. Rows of the file of ``--json`` that are not run are NOT_RUN. The
script exits with 1 unless every row that was asked for passed. No figure is a GPU time.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from blackwell_cases import ARCHS, all_cases
from fmha_triton.catalogue import BLACKWELL, algorithm_of, function_of
from triton_cases import Case
from triton_check import chosen, executed, kept

SCHEMA = "fmha.blackwell-check/1"
Point = tuple[str, Case]


def empty(arch: str, case: Case) -> dict[str, Any]:
    """The row of a case that has not been run."""
    return {
        "arch": arch,
        "kind": case.kind,
        "flags": case.flags,
        "verdict": "NOT_RUN",
        "ctas": None,
        "kernel": None,
        "error": None,
        "executed": None,
    }


def row_of(arch: str, case: Case) -> dict[str, Any]:
    """Execute one case. Another kernel than Blackwell's is a row that does not pass."""
    kernel = chosen(arch, case)
    if kernel is None:
        return {**empty(arch, case), "verdict": "REFUSED"}
    ctas = getattr(algorithm_of(kernel), "num_ctas", 1)
    if function_of(kernel) != BLACKWELL:
        return {**empty(arch, case), "verdict": f"another kernel: {function_of(kernel)}"}
    return {**executed(arch, case), "ctas": ctas}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: sums by kind, device and CTAs, then every row."""
    done = [row for row in rows if row["verdict"] != "NOT_RUN"]
    passed = sum(row["verdict"] == "PASSED" for row in done)
    kernels = len({row["kernel"] for row in done if row["kernel"]})
    lines = [
        f"{passed} of {len(done)} rows PASSED, {len(rows) - len(done)} rows NOT_RUN; {kernels} distinct kernels; triton {importlib.metadata.version('triton')}.",
        "",
        "| device | CTAs | verdicts |",
        "|---|---|---|",
    ]
    groups: dict[tuple[str, Any], Counter[str]] = {}
    for row in rows:
        groups.setdefault((row["arch"], row["ctas"]), Counter())[row["verdict"]] += 1
    for (arch, ctas), found in groups.items():
        lines.append(
            f"| emu:{arch} | {ctas or '-'} | {', '.join(f'{n} {verdict}' for verdict, n in sorted(found.items()))} |"
        )
    lines += [
        "",
        "| device | kind | problem | CTAs | verdict | O, of its budget | instructions |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in done:
        o = (row["error"] or {}).get("o")
        error = f"{o['row_l2']:.1e} ({o['row_l2'] / o['budget']:.0%})" if o else "-"
        count = sum(one["instructions"] for one in row["executed"] or ())
        lines.append(
            f"| emu:{row['arch']} | {row['kind']} | `{row['flags']}` | {row['ctas'] or '-'} | {row['verdict']} | {error} | {count:,} |"
        )
    return "\n".join((*lines, ""))


def points_of(archs: Iterable[str]) -> list[Point]:
    """Every case on each of its architectures: the cases in order, so that a run that is cut short has some of each device."""
    return [(arch, case) for case in all_cases() for arch in archs if arch in case.archs]


def main(arguments: Sequence[str] | None = None, run: Callable[[str, Case], dict[str, Any]] = row_of) -> int:
    """Run the script. Returns 0 if every row that was asked for passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--only", default="", help="cases whose kind or flags hold this text")
    parser.add_argument("--first", type=int, metavar="N", help="run the first N of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows, after each one")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the rows in the file of --json that passed with the kernels of today",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    given = parser.parse_args(arguments)
    every = points_of(ARCHS)
    asked = [(a, c) for a, c in every if a in given.arch and given.only in f"{c.kind} {c.flags}"][: given.first]
    old = (
        json.loads(given.json.read_text("utf-8"))["rows"] if given.resume and given.json and given.json.exists() else []
    )
    standing = kept(old, asked)
    rows = {(arch, case.flags): empty(arch, case) for arch, case in every}
    rows |= {(row["arch"], row["flags"]): row for row in old if (row["arch"], row["flags"]) in rows}
    for arch, case in asked:
        row = rows[arch, case.flags] = standing.get((arch, case.flags)) or run(arch, case)
        print(f"{row['verdict']:12} {arch} {row['ctas']} {case.flags} {row.get('why') or ''}", flush=True)
        if given.json:
            document = {"schema": SCHEMA, "triton": importlib.metadata.version("triton"), "rows": list(rows.values())}
            given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if given.markdown:
        given.markdown.write_text(table(list(rows.values())), "utf-8")
    return int(not asked or any(rows[arch, case.flags]["verdict"] != "PASSED" for arch, case in asked))


if __name__ == "__main__":
    sys.exit(main())
