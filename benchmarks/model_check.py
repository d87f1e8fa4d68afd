"""Compares ``arch_specs/_model_types.json`` with the classes of the installed transformers, and makes the golden sample of its calls.

python benchmarks/model_check.py           # every class, with every configuration of model_samples; prints the counts
python benchmarks/model_check.py --golden  # writes tests/golden/model_calls.json
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import model_hooks as hooks
import model_probe as probe
import model_rows as rows
import model_samples as samples
import model_types as types

from fmha_cli.discovery.model_types import ANY, Members, release, type_rows

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "model_calls.json"


def compared() -> tuple[dict[str, int], dict[str, str]]:
    """How many classes are right and refused, and how the others differ."""
    counted: Counter[str] = Counter(dict.fromkeys(("meta device", "configurations", "refused configurations"), 0))
    wrong: dict[str, str] = {}
    for kind, row in type_rows().items():
        if kind == ANY:
            continue
        if not row.facts:
            counted["nested classes" if row.text else "refused classes"] += 1
            continue
        counted["classes with facts"] += 1
        try:
            tried = hooked(kind) if kind in rows.READ else list(samples.samples(kind))
        except Exception as fault:  # noqa: BLE001 - what a class raises is the finding
            wrong[kind] = f"{type(fault).__name__}: {fault}"[:200]
            continue
        for what, members, calls in tried:
            text = types.difference(row, kind, members, calls)
            counted["configurations"] += 1
            counted["refused configurations"] += text.startswith("refused")
            counted["meta device"] += what in ("defaults", "tiny, meta")
            if text and not text.startswith("refused"):
                wrong[kind] = f"{what}: {text}"
    return dict(counted), wrong


def hooked(kind: str) -> list[types.Sample]:
    """The calls of a class without an attention function, seen in its matrix products."""
    members = samples.tiny(kind)
    row = type_rows()[kind]
    read = Members(members, row, kind)
    scale = read.value("scale") or read.value("hdim") ** -0.5
    return [("hooked", members, hooks.close(hooks.hooked(kind, members), float(scale)))]


def golden(recorded: Mapping[str, Sequence[types.Sample]]) -> dict[str, Any]:
    """A configuration of each class with its calls, drawn with a seed from those that the table does not refuse."""
    table, draw = type_rows(), random.Random(24)
    chosen: dict[str, Any] = {}
    for kind, tried in sorted(recorded.items()):
        row = table[kind]
        good = [
            (members, calls)
            for _, members, calls in tried
            if row.facts and not types.difference(row, kind, members, calls)
        ]
        if good:
            members, calls = draw.choice(good)
            chosen[kind] = {"members": members, "calls": listed(calls)}
    return {"release": release(), "seqlen": probe.SEQLEN, "calls": chosen}


def listed(calls: Sequence[probe.Call]) -> list[list[Any]]:
    """Calls as the golden file has them: heads, key/value heads, head dims, scale, cap, sinks, slopes, keys seen, how often."""
    counted = Counter(probe.Call(**{**vars(call), "scale": types.rounded(call.scale)}) for call in calls)
    found = [
        [
            one.heads,
            one.kv_heads,
            one.hdim,
            one.hdim_v,
            one.scale,
            one.softcap,
            one.sink_logits,
            one.alibi,
            list(one.seen),
            times,
        ]
        for one, times in counted.items()
    ]
    return sorted(found, key=repr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--golden", action="store_true", help="write the golden sample")
    if parser.parse_args().golden:
        kinds = [kind for kind, row in type_rows().items() if row.facts and kind != ANY]
        recorded = {kind: hooked(kind) if kind in rows.READ else list(samples.samples(kind, False)) for kind in kinds}
        lines = golden(recorded)
        calls = ",\n ".join(f"{json.dumps(kind)}: {json.dumps(one)}" for kind, one in lines["calls"].items())
        head = f'"release": {json.dumps(lines["release"])}, "seqlen": {lines["seqlen"]}'
        GOLDEN.write_text(f'{{{head}, "calls": {{\n {calls}\n}}}}\n', "utf-8")
        return
    counted, wrong = compared()
    for kind, text in wrong.items():
        print(f"{kind}: {text}")
    print(counted)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
