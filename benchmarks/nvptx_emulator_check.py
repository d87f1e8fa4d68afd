"""Execute the PTX of FlashAttention-2's, the memory-efficient and cuDNN's kernels on emulated devices, and count what is right.

    python benchmarks/nvptx_emulator_check.py [--only TEXT] [--first N] [--ragged] [--list] [--json FILE [--resume]] [--markdown FILE]

``nvptx_cases.py`` has the problems: two of each sort for a kind of kernel. Each goes through the walk of ``fmha validate``
once for each seed of the emulator. A kernel counts once, whatever the architecture, when two of its problems, one of them ragged, passed
without a finding under every seed. A kernel that is compiled for lengths that fill its tiles serves no ragged
problem; it is counted apart, after two problems of that sort. So is a kernel whose numbers were right in every row and that has
findings. NVRTC needs up to a minute for one kernel, so the file of ``--json`` is written after every row;
``--resume`` keeps the rows in it that passed, those of other problems, and those with which this same code had findings. The script exits with 1 unless every row passed. No figure is a GPU time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator_check import revision, worst_errors
from nvptx_cases import Kind, all_cases

from fmha_cli.api import FmhaError, Problem, Registry, build_registry, run
from fmha_cli.discovery.emulated_devices import emulated_device
from fmha_cli.toolchain.cache.files import replacing

SCHEMA = "fmha.nvptx-emulator-check/1"
SEEDS = (0, 1, 2)
PROBLEMS = 2
RIGHT = frozenset({"PASSED", "HAZARD"})
"""The verdicts of rows whose numbers are right, findings or none."""
Point = tuple[Kind, str, int]
"""A kind, the flags of one of its problems, and a seed of the emulator."""


def points_of(kinds: Iterable[Kind], *, ragged: bool = False) -> list[Point]:
    """Every problem of every kind under every seed; of the ragged problems alone, which suffice for a kernel to count."""
    problems = ((kind, flags) for kind in kinds for flags in (kind.ragged if ragged else kind.problems))
    return [(kind, flags, seed) for kind, flags in problems for seed in SEEDS]


def key_of(row: Mapping[str, Any]) -> tuple[str, str, str, str, int]:
    """What a row is a row of."""
    return row["backend"], row["device"], row.get("kernel", ""), row["flags"], row["seed"]


def asked(point: Point) -> tuple[str, str, str, str, int]:
    """The key of a point's row."""
    kind, flags, seed = point
    return kind.backend, kind.device, kind.kernel, flags, seed


def plain_digests(backend: str, device: str, registry: Registry) -> dict[str, str]:
    """The digests of a backend's kernels on a device, each with its digest without the architecture."""
    _, facts = emulated_device(registry, device)
    known = [arch for arch in facts.archs if arch in registry.backend(backend).archs()]
    kernels = (k for arch in known for k in registry.backend(backend).kernels(registry.arch(arch)))
    return {kernel.digest: replace(kernel, arch="").digest for kernel in kernels}


def stands(row: Mapping[str, Any], code: str) -> bool:
    """Whether a row need not be run again: it passed, or the same code had the same findings."""
    return row["verdict"] == "PASSED" or (row["verdict"] in RIGHT and row["revision"] == code)


def shown(findings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first finding of each kind in each kernel, with the number of ``places`` that have one. A row may have a hundred."""
    places = Counter((one["kernel"], one["kind"]) for one in findings)
    first = {(one["kernel"], one["kind"]): one for one in reversed(findings)}
    return [{**one, "places": places[key]} for key, one in sorted(first.items())]


def row_of(point: Point, registry: Registry, code: str, plain: Mapping[str, str]) -> dict[str, Any]:
    """Execute and judge one point. A refusal is a row too."""
    kind, flags, seed = point
    row: dict[str, Any] = {
        "arch": kind.device, "kind": kind.name, "case": kind.name, "backend": kind.backend, "device": kind.device, "flags": flags,
        "kernel": kind.kernel, "seed": seed, "ragged": flags in kind.ragged, "revision": code, "kernels": {}, "checks": {}, "findings": [],
    }  # fmt: skip
    try:
        options: dict[str, Any] = {
            "command": "validate",
            "backend": kind.backend,
            "device": kind.device,
            "emu_seed": seed,
        }
        options |= {"kernel": kind.kernel} if kind.kernel else {}
        records = [one.to_dict() for one in run(Problem.from_cli(flags), registry=registry, **options)]
    except FmhaError as fault:
        return {**row, "verdict": "REFUSED", "notes": [str(fault)], "repro": f"fmha validate {flags}"}
    worst = next((one for one in records if one["verdict"] != "PASSED" or one["findings"]), records[0])
    passed = worst["verdict"] == "PASSED" and not worst["findings"]
    return {
        **row,
        "verdict": worst["verdict"] if passed or worst["verdict"] != "PASSED" else "FINDING",
        "repro": worst["repro"],
        "kernels": {plain.get(stage["digest"], stage["digest"]): stage["family"] for stage in worst["stages"]},
        "checks": {name: check for name, check in (worst["checks"] or {}).items() if check},
        "findings": shown(worst["findings"] or []),
        "notes": worst["notes"],
    }


def counted(
    rows: Sequence[Mapping[str, Any]], *, full_tiles: bool = False, findings: bool = False
) -> dict[tuple[str, str], set[str]]:
    """The kernels that count, by backend and family: enough problems, one of them ragged, right under every seed.

    Args:
        full_tiles: the others instead, which ran problems enough but no ragged one.
        findings: those instead that have findings in a row, of either sort. No row of theirs is wrong.
    """
    seeds: dict[tuple[str, str, str], dict[tuple[str, bool], set[int]]] = defaultdict(lambda: defaultdict(set))
    spoiled: dict[bool, set[str]] = {True: set(), False: set()}
    for row in rows:
        if row["verdict"] != "PASSED":
            spoiled[row["verdict"] in RIGHT].update(row["kernels"])
        if row["verdict"] in RIGHT:
            for digest, family in row["kernels"].items():
                seeds[row["backend"], family, digest][row["flags"], row["ragged"]].add(row["seed"])
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for (backend, family, digest), problems in seeds.items():
        right = {problem for problem, under in problems.items() if under >= set(SEEDS)}
        sort = findings or any(ragged for _, ragged in right) is not full_tiles
        if len(right) >= PROBLEMS and sort and digest not in spoiled[False] and (digest in spoiled[True]) is findings:
            found[backend, family].add(digest)
    return dict(found)


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the kernels that count, the verdicts, the worst errors, and what did not pass."""
    kernels, full, found = counted(rows), counted(rows, full_tiles=True), counted(rows, findings=True)
    lines = [
        "| backend | family | kernels that count | of full tiles alone | right, with findings |",
        "|---|---|---|---|---|",
    ]
    for key in sorted(kernels.keys() | full.keys() | found.keys()):
        own = " | ".join(str(len(some.get(key, ()))) for some in (kernels, full, found))
        lines.append(f"| {key[0]} | {key[1]} | {own} |")
    sums = " | ".join(str(sum(map(len, some.values()))) for some in (full, found))
    lines.append(f"| **all** | | **{sum(map(len, kernels.values()))}** | {sums} |")
    verdicts = Counter((row["backend"], row["device"], row["verdict"]) for row in rows)
    lines += ["", "| backend | device | verdict | rows |", "|---|---|---|---|"]
    lines += [
        f"| {backend} | {device} | {verdict} | {n} |" for (backend, device, verdict), n in sorted(verdicts.items())
    ]
    lines += ["", *worst_errors(rows)]
    failed = [row for row in rows if row["verdict"] != "PASSED"]
    lines += [
        "",
        *(f"- {r['verdict']}: `{r['repro']}`: {'; '.join(r['notes'])[:300]}" for r in failed),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kinds whose backend, device and name hold this text")
    parser.add_argument("--first", type=int, metavar="N", help="only the first N kinds")
    parser.add_argument("--ragged", action="store_true", help="the ragged problems alone")
    parser.add_argument("--list", action="store_true", help="print the problems and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows, after each one")
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file of --json that stand")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    given = parser.parse_args(arguments)
    if given.resume and not given.json:
        parser.error("--resume needs --json, the file whose rows it keeps")
    kinds = [kind for kind in all_cases() if given.only in f"{kind.backend} {kind.device} {kind.name}"][: given.first]
    if given.list:
        print(
            "\n".join(
                f"{k.backend} {k.device} {k.name}: {flags}"
                for k, flags, seed in points_of(kinds, ragged=given.ragged)
                if seed == SEEDS[0]
            )
        )
        return 0
    old = json.loads(given.json.read_text("utf-8"))["rows"] if given.resume and given.json.exists() else []
    registry, code, points = build_registry(), revision(), points_of(kinds, ragged=given.ragged)
    standing = {key_of(row): row for row in old if stands(row, code)}
    wanted = {asked(point) for point in points}
    rows = [row for row in old if key_of(row) not in wanted]
    digests: dict[tuple[str, str], dict[str, str]] = {}
    for point in points:
        kind = point[0]
        plain = digests.setdefault((kind.backend, kind.device), {}) or plain_digests(
            kind.backend, kind.device, registry
        )
        digests[kind.backend, kind.device] = plain
        rows.append(standing.get(asked(point)) or row_of(point, registry, code, plain))
        print(
            f"{rows[-1]['verdict']:12} {kind.backend} {kind.device} {point[1]} seed {point[2]}",
            file=sys.stderr,
            flush=True,
        )
        if given.json:
            with replacing(given.json) as file:
                file.write((json.dumps({"schema": SCHEMA, "rows": rows}, indent=1) + "\n").encode())
    print(text := table(rows))
    if given.markdown:
        given.markdown.write_text(text + "\n", "utf-8")
    return int(any(row["verdict"] != "PASSED" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
