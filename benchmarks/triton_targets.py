"""Compile kernels of ``plugins/fmha-triton`` for NVIDIA targets without a GPU, and print what each needs. Nothing is executed.

    python benchmarks/triton_targets.py [--json FILE] [--markdown FILE]

For each architecture: the forward kernel with any mask (head dims 64 and 128), the split kernel with a paged cache, the backward kernel, and
on sm_90a the Hopper kernel in Gluon. fp16, without a bias and a cap.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from fmha_triton.catalogue import function_of, kernels_of

from fmha_cli import api

SCHEMA = "fmha.triton-targets/1"
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
WANTED = (
    ("forward", 64),
    ("forward", 128),
    ("split", 64),
    ("dq_dk_dv", 64),
    ("forward_hopper", 64),
    ("forward_hopper", 128),
)
COLUMNS = ("registers", "spilled", "shared_bytes", "occupancy", "instructions", "matrix_instructions")


def chosen(arch: str, function: str, hdim: int) -> api.KernelSpec | None:
    """The kernel of a row."""
    for kernel in kernels_of(arch):
        s = kernel.signature
        plain = s.dtype is api.DType.FP16 and s.bias is api.BiasKey.NONE and s.softcap is api.Need.NO
        masked = s.mask in (api.MaskKey.ANY, api.MaskKey.CAUSAL)
        paged = function != "split" or s.cache is api.CacheKey.PAGED
        if plain and masked and paged and s.hdim == hdim and function_of(kernel) == function:
            return kernel
    return None


def row_of(kernel: api.KernelSpec, function: str) -> dict[str, Any]:
    """The figures of a kernel, or why it was not built."""
    row: dict[str, Any] = {
        "arch": kernel.arch,
        "function": function,
        "hdim": kernel.signature.hdim,
        "kernel": kernel.name,
    }
    backend = api.build_registry().backend("triton")
    try:
        artifact = backend.build(api.Stage(kernel), api.BuildContext(cache_root=api.cache_root()))
        found: dict[str, Any] = backend.inspect(kernel, artifact)
    except api.FmhaError as fault:
        return {**row, "why": fault.what}
    classes = found["instruction_classes"] or {}
    return {
        **row,
        "why": found["why"],
        "registers": found["registers"]["gpr"],
        "spilled": found["spills"]["gpr"],
        "shared_bytes": found["shared_bytes"],
        "occupancy": found["occupancy"],
        "instructions": classes.get("total"),
        "matrix_instructions": found["matrix_instructions"],
        "target": found["target"],
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    lines = [
        f"| arch | kernel | head dim | {' | '.join(name.replace('_', ' ') for name in COLUMNS)} |",
        "|---|---|---|" + "---|" * len(COLUMNS),
    ]
    for row in rows:
        cells = " | ".join(str(row[name]) for name in COLUMNS) if "registers" in row else row["why"]
        lines.append(f"| {row['arch']} | `{row['function']}` | {row['hdim']} | {cells} |")
    return "\n".join((*lines, ""))


def main() -> int:
    """Run the script. Returns 1 if a kernel does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    args = parser.parse_args()
    rows = []
    for arch in ARCHS:
        for function, hdim in WANTED:
            kernel = chosen(arch, function, hdim)
            if kernel is not None:
                rows.append(row_of(kernel, function))
                print(rows[-1], flush=True)
    if args.json:
        args.json.write_text(json.dumps({"schema": SCHEMA, "rows": rows}, indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(markdown(rows), "utf-8")
    return int(any("registers" not in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
