"""Execute the kernels of ``plugins/fmha-triton`` on emulated AMD and NVIDIA devices, and judge what they compute.

    python benchmarks/triton_check.py [--arch A ...] [--only TEXT] [--json FILE [--resume]] [--markdown FILE]

``triton_cases.py`` defines the problems. Each goes through the same walk as ``fmha run``: chosen, compiled by Triton for the architecture,
launched on the emulated device, compared with the reference in float64. The script exits with 1 unless every row passed. No figure is a
GPU time. The file of ``--json`` is written after every row. With ``--resume`` a row in it is kept if it passed and the kernels that would be
built for its problem now are those that it was executed with.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fmha_triton import TritonBackend
from fmha_triton.building import key_of
from fmha_triton.catalogue import algorithm_of
from triton_cases import ARCHS, Case, all_cases

from fmha_cli import api

SCHEMA = "fmha.triton-check/1"


def device_of(arch: str) -> str:
    """The emulated device that runs an architecture's kernels: ``emu:sm_120`` runs the code of sm_120a too."""
    return "emu:sm_120" if arch == "sm_120a" else f"emu:{arch}"


def chosen(arch: str, case: Case) -> api.KernelSpec | None:
    """The kernel of a case: the first one, of those with its number of CTAs if it names one. None if there is none on this architecture."""
    backend, device = TritonBackend(driven=False), api.DeviceFacts.of_arch(arch)
    decisions = backend.decide(api.Problem.from_cli(case.flags), device)
    fitting = [
        d for d in decisions if isinstance(d, api.Supported) and case.ctas in (None, algorithm_of(d.kernel).num_ctas)
    ]
    return min(fitting, key=lambda d: d.rank).kernel if fitting else None


def build_of(arch: str, case: Case) -> str | None:
    """A digest of everything that is built for a case: texts, options, Triton's version, the compiling program. None if it is refused.

    Raises:
        EnvironmentProblem: K972, Triton is not installed.
    """
    kernel = chosen(arch, case)
    if kernel is None:
        return None
    plan = TritonBackend(driven=False).plan(api.Problem.from_cli(case.flags), kernel, api.DeviceFacts.of_arch(arch))
    keys = " ".join(key_of(stage.kernel).digest for stage in plan.stages)
    return hashlib.sha256(keys.encode()).hexdigest()


def kept(
    rows: Iterable[dict[str, Any]],
    points: Iterable[tuple[str, Case]],
    build: Callable[[str, Case], str | None] = build_of,
) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows of an earlier run that still stand, by architecture and flags. A row that says nothing of its build does not."""
    passed = {(row["arch"], row["flags"]): row for row in rows if row["verdict"] == "PASSED" and row.get("build")}
    asked = ((arch, case, passed.get((arch, case.flags))) for arch, case in points)
    return {(arch, case.flags): row for arch, case, row in asked if row and row["build"] == build(arch, case)}


def others(rows: Iterable[dict[str, Any]], points: Iterable[tuple[str, Case]]) -> list[dict[str, Any]]:
    """The rows of an earlier run that this one does not ask for."""
    asked = {(arch, case.flags) for arch, case in points}
    return [row for row in rows if (row["arch"], row["flags"]) not in asked]


def executed(arch: str, case: Case) -> dict[str, Any]:
    """The row of one case on one emulated device."""
    row: dict[str, Any] = {"arch": arch, "kind": case.kind, "flags": case.flags, "build": build_of(arch, case)}
    try:
        named = chosen(arch, case) if case.ctas else None
        problem, kernel = api.Problem.from_cli(case.flags), named.name if named else None
        (record,) = api.run(problem, backend="triton", device=device_of(arch), kernel=kernel)
    except api.FmhaError as fault:
        return {**row, "verdict": "REFUSED", "why": str(fault), "kernel": None, "error": None, "executed": None}
    document = api.to_json(record)
    figures = {name: one for name, one in (document["checks"] or {}).items() if one}
    passed = document["verdict"] == "PASSED" and not document["findings"]
    return {
        **row,
        "verdict": "PASSED" if passed else f"{document['verdict']} with findings" if figures else document["verdict"],
        "why": None if passed else json.dumps(document["findings"] or figures or document["notes"])[:600],
        "kernel": document["kernel"] and document["kernel"]["digest"],
        "error": {name: {"row_l2": one["row_l2"], "budget": one["row_l2_budget"]} for name, one in figures.items()},
        "executed": [{k: s[k] for k in ("kernel", "instructions", "matrix_flops")} for s in document["executed"] or ()],
    }


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Rows by kind and architecture, and the kernels that they are of."""
    rows = list(rows)
    archs = [arch for arch in ARCHS if any(row["arch"] == arch for row in rows)]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    passed = sum(row["verdict"] == "PASSED" for row in rows)
    kernels = len({row["kernel"] for row in rows if row["kernel"]})
    lines = [
        f"{passed} of {len(rows)} rows PASSED; {kernels} distinct kernels; triton {importlib.metadata.version('triton')}.",
        "",
        f"| kind | {' | '.join(device_of(arch) for arch in archs)} |",
        f"|---|{'---|' * len(archs)}",
    ]
    for kind in kinds:
        cells = []
        for arch in archs:
            found = Counter(row["verdict"] for row in rows if row["kind"] == kind and row["arch"] == arch)
            cells.append(", ".join(f"{count} {verdict}" for verdict, count in sorted(found.items())) or "-")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join((*lines, ""))


def main() -> int:
    """Run the script. Returns 0 if all rows passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--only", default="", help="cases whose kind or flags hold this text")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    args = parser.parse_args()
    points = [(a, c) for c in all_cases() for a in args.arch if a in c.archs and args.only in f"{c.kind} {c.flags}"]
    resumed = args.resume and args.json and args.json.exists()
    old = json.loads(args.json.read_text("utf-8"))["rows"] if resumed else []
    rows, standing = others(old, points), kept(old, points)
    for arch, case in points:
        row = standing.get((arch, case.flags)) or executed(arch, case)
        rows.append(row)
        print(f"{row['verdict']:12} {arch} {case.flags} {row['why'] or ''}", flush=True)
        if args.json:
            document = {"schema": SCHEMA, "triton": importlib.metadata.version("triton"), "rows": rows}
            args.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(markdown(rows), "utf-8")
    return int(any(row["verdict"] != "PASSED" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
