"""The facts in ``arch_specs/_flash_attn_3.json``, read again from upstream's sources.

``python -m tests.support.referees.flash_attn_3.tables CACHE`` writes that file from the sources in a cache's root. Tiles, backward traits and combine sizes come from
upstream's templates, which g++ compiles (``host/tables.cpp``); the pairs of head dims come from upstream's generator.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fmha_cli.codegen.flash_attn_3.facts import MASKS, document
from tests.support.paths import ROOT
from tests.support.referees.flash_attn_3.program import FLAGS, HERE, TREE, compiler_or_skip, sources_or_skip, stub_of
from tests.support.referees.upstream_host.building import run

FACTS = ROOT / "arch_specs" / "_flash_attn_3.json"
CUTS = {
    "backward.inc": (
        "flash_bwd_launch_template.h",
        "template<int Arch, typename T, bool Has_softcap>\nvoid run_mha_bwd_hdim64",
    ),
    "combine.inc": ("flash_fwd_combine_launch_template.h", "template<typename T, typename Tpartial, int kBlockK>"),
}
MASK_NAMES = tuple(mask.value for mask in MASKS)
Row = list[int]


def generator(tree: Path) -> Any:
    """Upstream's generator of instances as a module."""
    spec = importlib.util.spec_from_file_location(
        "fa3_generate_kernels", tree / TREE / "hopper" / "generate_kernels.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module


def tables(tree: Path) -> dict[str, Any]:
    """The tables of the facts file, by their keys."""
    with TemporaryDirectory() as work:
        pairs = _pairs(tree)
        rows = _rows(tree, Path(work), pairs)
    return {
        "pairs": pairs,
        "tiles": [[size, d, v, MASK_NAMES[mask], *more] for size, d, v, mask, *more in rows["tile"]],
        "combine": list(_combine(rows["combine"])),
        "prepare warps": sorted({warps for (warps,) in rows["prepare"]}),
        "backward": list(_backward(rows["backward"])),
    }


def _pairs(tree: Path) -> dict[str, list[list[int]]]:
    sizes = {"fp16": "2", "bf16": "2", "e4m3": "1"}
    found: dict[str, dict[tuple[int, int], None]] = {"2": {}, "1": {}}
    for kernel in generator(tree).get_all_kernels():
        if kernel.sm == 90 and kernel.direction == "fwd":
            found[sizes[kernel.dtype]][kernel.head_dim, kernel.head_dim_v] = None
    return {size: [list(pair) for pair in sorted(pairs)] for size, pairs in found.items()}


def _rows(tree: Path, work: Path, pairs: Mapping[str, list[list[int]]]) -> dict[str, list[Row]]:
    """What the program prints, by the first word of the line."""
    hopper = tree / TREE / "hopper"
    for name, (file, mark) in CUTS.items():
        text = (hopper / file).read_text("utf-8")
        (work / name).write_text(text[text.index(mark) :])
    folders = (stub_of(work), work, HERE, hopper)
    source, made = str(HERE / "host" / "tables.cpp"), str(work / "tables")
    run([compiler_or_skip(), *FLAGS, *(f"-I{folder}" for folder in folders), source, "-o", made])
    words = [str(number) for size, listed in pairs.items() for pair in listed for number in (size, *pair)]
    out = subprocess.run([made, *words], capture_output=True, text=True, check=True, timeout=600).stdout
    rows: dict[str, list[Row]] = {}
    for line in out.splitlines():
        name, *numbers = line.split()
        rows.setdefault(name, []).append([int(number) for number in numbers])
    return rows


def _combine(rows: Iterable[Row]) -> Iterator[list[Any]]:
    sizes: dict[tuple[int, int], set[int]] = {}
    for height, width, log in rows:
        sizes.setdefault((height, width), set()).add(log)
    for (height, width), logs in sorted(sizes.items()):
        yield [height, width, sorted(logs)]


def _backward(rows: Iterable[Row]) -> Iterator[list[Any]]:
    """A row for each exception, then one for all that is left of a head dim: the first that has a mask and softcap counts."""
    traits: dict[int, dict[tuple[str, int], tuple[int, ...]]] = {}
    for hdim, causal, local, softcap, *held in rows:
        mask = MASK_NAMES[1 if causal else 2 if local else 0]
        traits.setdefault(hdim, {})[mask, softcap] = tuple(held)
    for hdim, found in sorted(traits.items()):
        every = list(found.values())
        usual = max(every, key=every.count)
        for mask, softcap in product(MASK_NAMES, (0, 1)):
            if found[mask, softcap] != usual:
                yield [hdim, [mask], [softcap], *found[mask, softcap]]
        yield [hdim, list(MASK_NAMES), [0, 1], *usual]


def text_of(facts: Mapping[str, Any]) -> str:
    """The file: a row of a table is one line."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], list):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            lines.append(f" {json.dumps(key)}: [\n{rows}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FACTS.write_text(text_of({**document(), **tables(sources_or_skip(Path(sys.argv[1])))}))
