"""Compile one kernel for every configuration and architecture of ``plugins/fmha-triton``, and write what each needs. Nothing is executed.

    python plugins/fmha-triton/update_inspected.py [--arch A ...] [--jobs N] [--again]
    python plugins/fmha-triton/update_inspected.py --try gfx950:forward:128:8=128,32,4,1,2 ...

A configuration is a tile with its warps and stages, for a function, a head dim and a width of element; ``configs.json`` has them. The
kernel that stands for it has any mask (the Hopper kernel: the causal one), no bias, no softcap and no padding of the head dim; its inputs
are fp16, or the architecture's first fp8 type with one scale. Its figures are written to the plugin's ``inspected.json`` after every
kernel. A row that the file has for the same configuration and the same Triton is kept, unless ``--again`` is given.

``--try`` compiles the same kernel with another configuration and keeps its figures in the row as one of ``others``. A configuration
counts as chosen by its figures if its row has others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmha_triton.algorithm import archs, data, target_of
from fmha_triton.building import build, inspect, triton_version
from fmha_triton.catalogue import algorithm_of
from fmha_triton.inspected import FIGURES, SCHEMA, keys_of, representative

from fmha_cli import api, plugin

OUT = Path(__file__).parent / "src/fmha_triton/inspected.json"
SOURCE = "plugins/fmha-triton/update_inspected.py: Triton's output for a named target, read by fmha inspect; nothing was executed"


def wanted(chosen: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(architecture, function, key of the configuration) of every configuration that an architecture uses."""
    for arch in chosen:
        for function in data()["kernels"]:
            for key in keys_of(arch, function):
                yield arch, function, key


def row_of(arch: str, function: str, key: str) -> dict[str, Any]:
    """The figures of the kernel that stands for a configuration, or why there are none."""
    return {"arch": arch, "function": function, "key": key, **compiled(arch, function, key)}


def compiled(arch: str, function: str, key: str, config: Sequence[int] = ()) -> dict[str, Any]:
    """The figures of the same kernel with a configuration, by default that of the data."""
    kernel = representative(arch, function, key)
    config = list(config) or config_of(arch, function, key)
    algorithm = replace(algorithm_of(kernel), **dict(zip(data()["columns"], config, strict=True)))
    kernel = replace(kernel, algorithm=algorithm)
    row: dict[str, Any] = {"config": config}
    try:
        artifact = build(plugin.Stage(kernel), plugin.BuildContext(cache_root=plugin.cache_root()))
        return row | figures_of(inspect(kernel, artifact), target_of(arch).kind) | {"triton": triton_version()}
    except api.FmhaError as fault:
        return {**row, "why": fault.what, "triton": triton_version()}


def tried(text: str) -> tuple[tuple[str, str, str], dict[str, Any]]:
    """The row and the figures of ``ARCH:FUNCTION:KEY=NUMBER,...``."""
    place, _, numbers = text.partition("=")
    arch, function, key = place.split(":", 2)
    return (arch, function, key), compiled(arch, function, key, [int(n) for n in numbers.split(",")])


def with_other(row: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The row with one more configuration that was compared with its own; a newer one replaces its like."""
    kept = [one for one in row.get("others", ()) if one["config"] != other["config"]]
    return {**row, "others": [*kept, other]}


def config_of(arch: str, function: str, key: str) -> list[int]:
    """The configuration as the data has it."""
    found: list[int] = data()["kernels"][function]["by_class"][data()["archs"][arch]["class"]][key]
    return found


def figures_of(found: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The figures of both vendors under one name each."""
    vector, memory = ("vgpr", "lds_bytes") if kind == "hip" else ("gpr", "shared_bytes")
    figures = (
        found["registers"][vector], found["spills"][vector], found[memory], found["occupancy"],
        (found["instruction_classes"] or {}).get("total"), found["matrix_instructions"],
    )  # fmt: skip
    return dict(zip(FIGURES, figures, strict=True))


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """The file: one line for each row."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f'{{\n "schema": "{SCHEMA}",\n "source": "{SOURCE}",\n "rows": [\n{lines}\n ]\n}}\n'


def main() -> int:
    """Run the script. Returns 1 if a kernel does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="+", choices=archs(), default=archs())
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--try", nargs="+", dest="others", default=(), metavar="ARCH:FUNCTION:KEY=CONFIGURATION")
    args = parser.parse_args()
    had = json.loads(OUT.read_text("utf-8"))["rows"] if OUT.exists() else []
    rows = {(row["arch"], row["function"], row["key"]): row for row in had}
    order = list(wanted(archs()))
    rows = {at: rows[at] for at in order if at in rows}
    todo = [at for at in wanted(args.arch) if args.again or not kept(rows.get(at), at)]
    with ThreadPoolExecutor(args.jobs) as pool:
        for at, row in zip(todo, pool.map(lambda at: row_of(*at), todo), strict=True):
            rows[at] = with_the_old(row, rows.get(at))
            print(row, flush=True)
            OUT.write_text(written(rows[at] for at in order if at in rows), "utf-8")
        for at, other in pool.map(tried, args.others):
            rows[at] = with_other(rows[at], other)
            print(*at, other, flush=True)
            OUT.write_text(written(rows[at] for at in order if at in rows), "utf-8")
    return int(any("why" in row for row in rows.values()))


def with_the_old(row: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """A new row with the configurations that were compared before; the one that the data had is one of them."""
    if old is None:
        return row
    others = [one for one in old.get("others", ()) if one["config"] != row["config"]]
    if old["config"] != row["config"] and "why" not in old:
        others.append({name: old[name] for name in ("config", *FIGURES, "triton")})
    return row | ({"others": others} if others else {})


def kept(row: Mapping[str, Any] | None, at: tuple[str, str, str]) -> bool:
    """Whether a row is of the configuration that the data has now, and of the installed Triton."""
    return row is not None and row["config"] == config_of(*at) and row["triton"] == triton_version()


if __name__ == "__main__":
    sys.exit(main())
