"""The Triton kernels beside those of FlashAttention-2 and Composable Kernel for the same problems: what each needs and executes.

    python benchmarks/triton_figures.py [--json FILE] [--markdown FILE]

For each problem and architecture, each backend's best kernel is built and inspected: registers, spills, shared memory (LDS),
occupancy, instructions, matrix instructions. On emulated AMD devices the same kernels execute a small problem; their matrix operations are
compared with the problem's FLOPs. More than 1 means work on padding and masked tiles. A backend that has no kernel or no sources
here has a row that says why. No figure is a time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fmha_cli import api
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of

SCHEMA = "fmha.triton-figures/1"
LARGE = "-b 4 -H 32 -s 2048 -d {d} --dtype fp16 --causal --lse"
SMALL = "-b 1 -H 2 -s 256 -d {d} --dtype fp16 --causal --lse"
PAIRS = (("sm_80", "flash_attn"), ("sm_90a", "flash_attn"), ("gfx942", "ck_tile"), ("gfx950", "ck_tile"))
EXECUTED = ("gfx942", "gfx950")
FIGURES = (
    "vgpr", "agpr", "sgpr", "gpr", "spills", "sgpr_spills", "lds_bytes", "shared_bytes", "occupancy",
    "instruction_count", "matrix_instructions", "code_bytes",
)  # fmt: skip


def inspected(registry: api.Registry, backend: str, arch: str, flags: str) -> dict[str, Any]:
    """The row of a backend's best kernel for a problem."""
    problem, archs = api.Problem.from_cli(flags), (arch, arch.removesuffix("a"))
    row: dict[str, Any] = {"backend": backend, "arch": arch, "flags": flags, "kernel": None, "why": None, "figures": {}}
    device = api.DeviceFacts(id="none", archs=archs, units=132)
    one = registry.backend(backend)
    try:
        found = [d for d in one.decide(problem, device) if isinstance(d, api.Supported)]
        if not found:
            return {**row, "why": "no kernel fits"}
        kernel = min(found, key=lambda d: d.rank).kernel
        artifact = one.build(api.Stage(kernel), api.BuildContext(cache_root=api.cache_root()))
        figures = figures_of(inspect_document(kernel, one.inspect(kernel, artifact), artifact))
    except api.FmhaError as fault:
        return {**row, "why": fault.what}
    return {**row, "kernel": kernel.name, "figures": {name: figures[name] for name in FIGURES}}


def executed(backend: str, arch: str, flags: str, kernel: str) -> dict[str, Any]:
    """What a kernel executes for a problem on an emulated device."""
    problem = api.Problem.from_cli(flags)
    row: dict[str, Any] = {"backend": backend, "arch": arch, "flags": flags, "flops": problem.flops()}
    try:
        (record,) = api.run(problem, backend=backend, device=f"emu:{arch}", kernel=kernel)
    except api.FmhaError as fault:
        return {**row, "verdict": "REFUSED", "why": fault.what}
    stages = api.to_json(record)["executed"] or ()
    total = {key: sum(stage[key] for stage in stages) for key in ("instructions", "matrix_flops")}
    return {**row, "verdict": record.verdict.value, **total, "ratio": round(total["matrix_flops"] / problem.flops(), 3)}


def markdown(rows: Sequence[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> str:
    """Both tables."""
    names = [name for name in FIGURES if any(row["figures"].get(name) is not None for row in rows)]
    lines = [
        f"| problem | arch | backend | {' | '.join(name.replace('_', ' ') for name in names)} |",
        "|---|---|---|" + "---|" * len(names),
    ]
    for row in rows:
        cells = (
            [row["figures"].get(name) for name in names] if row["kernel"] else [row["why"], *[None] * (len(names) - 1)]
        )
        shown = " | ".join(
            "" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells
        )
        lines.append(f"| `{row['flags']}` | {row['arch']} | {row['backend']} | {shown} |")
    lines += [
        "",
        "| problem | device | backend | verdict | wave instructions | matrix operations / FLOPs |",
        "|---|---|---|---|---|---|",
    ]
    for run in runs:
        counts = f"{run.get('instructions', '')} | {run.get('ratio', run.get('why', ''))}"
        lines.append(f"| `{run['flags']}` | emu:{run['arch']} | {run['backend']} | {run['verdict']} | {counts} |")
    return "\n".join((*lines, ""))


def main() -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    args = parser.parse_args()
    registry = api.build_registry()
    points = [(b, arch, LARGE.format(d=d)) for arch, other in PAIRS for d in (64, 128) for b in ("triton", other)]
    rows = []
    for backend, arch, flags in points:
        rows.append(inspected(registry, backend, arch, flags))
        print(f"{arch} {backend} {rows[-1]['why'] or rows[-1]['figures']}", flush=True)
    runs = []
    for arch, d, backend in product(EXECUTED, (64, 128), ("triton", "ck_tile")):
        same = (
            row["kernel"]
            for row in rows
            if (row["backend"], row["arch"], row["flags"]) == (backend, arch, LARGE.format(d=d))
        )
        runs.append(executed(backend, arch, SMALL.format(d=d), next(same) or ""))
        print(runs[-1], flush=True)
    if args.json:
        document = {"schema": SCHEMA, "inspected": rows, "executed": runs}
        args.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(markdown(rows, runs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
