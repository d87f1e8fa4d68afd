"""The common parts of the build matrices: their lists, the builds, the table of results, the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.discovery.registry import Registry, build_registry
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.toolchain.cache.root import cache_root
from fmha_cli.walk.builds import Built, build_stages

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """One matrix.

    Attributes:
        doc: of the command line.
        listed: (``--only``, ``--ci``) -> the list of kernels.
        quick: a description of what ``--ci`` selects.
        kernels_of: the kernels of rows of the list.
        row_of: (row of the list, kernel, its build outcome, registry) -> all figures of a kernel.
        page: (rows, wall seconds, jobs) -> the page of results.
        document: returns further members of the JSON file.
    """

    doc: str | None
    listed: Callable[[Sequence[str], bool], list[dict[str, Any]]]
    quick: str
    kernels_of: Callable[[Sequence[Row], Registry], list[KernelSpec]]
    row_of: Callable[[Row, KernelSpec, Built, Registry], dict[str, Any]]
    page: Callable[[Sequence[Row], float, int], str]
    document: Callable[[], Mapping[str, Any]] = dict


def listed_in(path: Path, only: Sequence[str] = (), ci: bool = False) -> list[dict[str, Any]]:
    """The rows of a list in a file, filtered by :func:`chosen`."""
    return chosen(json.loads(path.read_text("utf-8"))["kernels"], only, ci)


def chosen(rows: Sequence[dict[str, Any]], only: Sequence[str], ci: bool) -> list[dict[str, Any]]:
    """The rows that are asked for; ``only`` is ``ARCH`` or ``ARCH:FAMILY``."""
    return [
        row
        for row in rows
        if (row["ci"] or not ci) and (not only or row["arch"] in only or f"{row['arch']}:{row['family']}" in only)
    ]


def build(kernels: Sequence[KernelSpec], registry: Registry, context: BuildContext) -> Mapping[str, Built]:
    """Build the kernels; returns digest -> outcome. Progress goes to stderr."""

    def heard(built: Built) -> None:
        what = built.error.what if built.error else "in the cache" if built.value and built.value.cached else "built"
        print(f"{time.strftime('%H:%M:%S')} {what}: {built.name[:110]}", file=sys.stderr, flush=True)

    return build_stages([Stage(kernel) for kernel in kernels], registry, context, heard=heard)


def cost(built: Built, peak_bytes: int | None) -> dict[str, Any]:
    """The cost of a built kernel: seconds, MiB, and whether it came from the cache."""
    assert built.value is not None
    return {
        "build_s": round(built.value.build_seconds, 1),
        "cached": built.value.cached,
        "memory_mib": None if peak_bytes is None else round(peak_bytes / 2**20),
    }


def counts_that_differ(counts: Mapping[str, int], ours: Mapping[str, int]) -> list[str]:
    """The mnemonics whose counts in a disassembler and in ``inspect`` differ."""
    return [
        f"{counts.get(name, 0)} {name}, inspect says {ours.get(name, 0)}"
        for name in sorted({*ours, *counts})
        if ours.get(name, 0) != counts.get(name, 0)
    ]


def table(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    """The rows as a Markdown table; a kernel that failed has its error instead of figures."""
    heads = ["arch", "family", "shows", *(name.replace("_instructions", "").replace("_", " ") for name in columns)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * 3 + "---:|" * len(columns)]
    for row in rows:
        values = [row["error"]] if row["error"] else [_cell(row[name]) for name in columns]
        lines.append(f"| {row['arch']} | {row['family']} | {row['shows']} | " + " | ".join(values) + " |")
    return lines


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def run(matrix: Matrix) -> int:
    """The command line. The exit code is 1 if a kernel does not build or a figure differs."""
    parser = argparse.ArgumentParser(description=matrix.doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", action="append", default=[], metavar="ARCH[:FAMILY]")
    parser.add_argument("--ci", action="store_true", help=matrix.quick)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    wanted = parser.parse_args()
    registry = build_registry()
    entries = matrix.listed(wanted.only, wanted.ci)
    kernels = matrix.kernels_of(entries, registry)
    context = BuildContext(
        cache_root=cache_root(None), jobs=wanted.jobs, notify=lambda text: print(text, file=sys.stderr)
    )
    start = time.monotonic()
    built = build(kernels, registry, context)
    seconds = time.monotonic() - start
    rows = [matrix.row_of(entry, k, built[k.digest], registry) for entry, k in zip(entries, kernels, strict=True)]
    page = matrix.page(rows, seconds, wanted.jobs)
    print(page)
    for row in rows:
        for fault in filter(None, (row["error"], *row["disagreements"])):
            print(f"{row['arch']} {row['kernel']}: {fault}")
    if wanted.markdown:
        wanted.markdown.write_text(page, "utf-8")
    if wanted.json:
        document = {**matrix.document(), "jobs": wanted.jobs, "kernels": rows, "wall_seconds": round(seconds, 1)}
        wanted.json.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", "utf-8")
    return int(any(row["error"] or row["disagreements"] for row in rows))
