"""Execute the PTX of FlashAttention-2's, the memory-efficient and cuDNN's kernels on emulated devices, and count the
right results.

``nvptx_problems.py`` has the problems: two of each sort for a kind of kernel. Each goes through the walk of ``fmha validate`` once for each
seed of the emulator. A kernel counts once, whatever the architecture, when two of its problems, one of them ragged, passed without a finding
under every seed. A kernel that is compiled for lengths that fill its tiles serves no ragged problem; it is counted apart, after two problems
of that sort. So is a kernel whose numbers were right in every row and that has findings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fmha_cli.api import FmhaError, Problem, build_registry, run
from fmha_cli.discovery.emulated_devices import emulated_device
from tests.checks.check import Check, Row, builds, revision
from tests.checks.nvptx_problems import PtxKind, all_kinds
from tests.checks.tables import table

SEEDS = (0, 1, 2)
PROBLEMS = 2
RIGHT = frozenset({"PASSED", "HAZARD"})
"""The verdicts of rows whose numbers are right, findings or none."""
registry = cache(build_registry)


@dataclass(frozen=True)
class PtxPoint:
    """A problem of a kind under a seed of the emulator."""

    kind: PtxKind
    flags: str
    seed: int

    @property
    def name(self) -> str:
        sort = "ragged" if self.flags in self.kind.ragged else "even"
        number = (self.kind.ragged if sort == "ragged" else self.kind.even).index(self.flags)
        return f"{self.kind.backend} {self.kind.device} {self.kind.name}, {sort} {number}, seed {self.seed}"


def points() -> Iterator[PtxPoint]:
    """Every problem of every kind under every seed. The ragged problems suffice for a kernel to count."""
    return (PtxPoint(kind, flags, seed) for kind in all_kinds() for flags in kind.problems for seed in SEEDS)


@cache
def plain_digests(backend: str, device: str) -> Mapping[str, str]:
    """The digests of a backend's kernels on a device, each with its digest without the architecture."""
    _, facts = emulated_device(registry(), device)
    known = [arch for arch in facts.archs if arch in registry().backend(backend).archs()]
    kernels = (k for arch in known for k in registry().backend(backend).kernels(registry().arch(arch)))
    return {kernel.digest: replace(kernel, arch="").digest for kernel in kernels}


def stands(row: Row) -> bool:
    """Whether a row need not be made again: it passed, or this revision had the same findings."""
    return row["verdict"] == "PASSED" or (row["verdict"] in RIGHT and row["revision"] == revision())


def shown(findings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first finding of each kind in each kernel, with the number of ``places`` that have one. A row may have a hundred."""
    places = Counter((one["kernel"], one["kind"]) for one in findings)
    first = {(one["kernel"], one["kind"]): one for one in reversed(findings)}
    return [{**one, "places": places[key]} for key, one in sorted(first.items())]


def row_of(point: PtxPoint) -> dict[str, Any]:
    """Execute one point and judge it."""
    kind = point.kind
    row: dict[str, Any] = {
        "backend": kind.backend, "device": kind.device, "arch": kind.device, "case": kind.name, "flags": point.flags,
        "seed": point.seed, "ragged": point.flags in kind.ragged, "kernel": kind.kernel, "revision": revision(),
        "kernels": {}, "checks": {}, "findings": [],
    }  # fmt: skip
    try:
        options = {"command": "validate", "backend": kind.backend, "device": kind.device, "emu_seed": point.seed}
        options |= {"kernel": kind.kernel} if kind.kernel else {}
        records = [one.to_dict() for one in run(Problem.from_cli(point.flags), registry=registry(), **options)]
    except FmhaError as fault:
        return {**row, "verdict": "REFUSED", "notes": [str(fault)], "repro": f"fmha validate {point.flags}"}
    worst = next((one for one in records if one["verdict"] != "PASSED" or one["findings"]), records[0])
    passed = worst["verdict"] == "PASSED" and not worst["findings"]
    plain = plain_digests(kind.backend, kind.device)
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
    rows: Sequence[Row], *, full_tiles: bool = False, findings: bool = False
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


def summary(rows: Sequence[Row]) -> str:
    """The kernels that count."""
    sorts = (counted(rows), counted(rows, full_tiles=True), counted(rows, findings=True))
    keys = sorted({key for some in sorts for key in some})
    counts = [[*key, *(len(some.get(key, ())) for some in sorts)] for key in keys]
    counts.append(["**all**", "", *(sum(map(len, some.values())) for some in sorts)])
    return table(("backend", "family", "kernels that count", "of full tiles alone", "right, with findings"), counts)


CHECK = Check(
    cases=points,
    name=lambda point: point.name,
    carry_out=row_of,
    stands=stands,
    depends=lambda point: builds(
        registry(),
        point.kind.backend,
        point.flags,
        emulated_device(registry(), point.kind.device)[1],
        point.kind.kernel,
    ),
    by=(lambda row: f"{row['backend']} {row['device']}", "verdict"),
    summarise=summary,
)
