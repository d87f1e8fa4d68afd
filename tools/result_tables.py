"""Tables of the pages of results, each made from data. ``TABLES`` has the function of each name in ``<!-- table NAME -->``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from tools.cpu_tables import cpu, session_leavings, session_times
from tools.result_data import data_of, grouped, spread, table

# Kernels that were built


def builds(name: str, backend: str, registers: str, spills: str, shared: str) -> str:
    """The kernels of a backend that were built, by architecture."""
    lines = []
    every = [row for row in data_of(name)["rows"] if row["backend"] == backend]
    for arch, rows in grouped(every, lambda row: row["arch"]).items():
        spilling = [row for row in rows if row[spills]]
        lines.append(
            (
                arch,
                len(rows),
                sum(not row["error"] and not row["disagreements"] for row in rows),
                spread(row["build_s"] for row in rows),
                spread(row["memory_mib"] for row in rows),
                spread(row[registers] for row in rows),
                f"{len(spilling)}, at most {max(row[spills] for row in spilling)}" if spilling else 0,
                max(row[shared] for row in rows),
                spread(row["occupancy"] for row in rows),
            )
        )
    return table(
        ("architecture", "kernels", "build, and agree", "seconds", "MiB", "registers", "spill", "largest LDS or shared bytes", "occupancy"),
        lines,
    )  # fmt: skip


# Emulated devices


def verdicts(names: Sequence[str], *by: str) -> str:
    """The rows of data by some members, with their verdicts, distinct kernels, and the share of the budget that O came closest to."""
    every = [row for name in names for row in data_of(name)["rows"]]
    lines = []
    for key, rows in sorted(grouped(every, lambda row: tuple(row.get(name) for name in by)).items()):
        counts = Counter(row["verdict"] for row in rows)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        shares = [
            row["error"]["o"]["row_l2"] / row["error"]["o"]["budget"] for row in rows if "o" in (row["error"] or {})
        ]
        lines.append((*key, said, len({row["kernel"] for row in rows}), f"{100 * max(shares):.0f} %"))
    return table((*by, "rows", "kernels", "largest error of O, of its budget"), lines)


def worst_errors(name: str) -> str:
    """For each type and output the row that came closest to its budget, of rows that passed."""
    from fmha_cli.domain.problem import Problem

    worst: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = {}
    for row in data_of(name)["rows"]:
        if row["verdict"] == "PASSED":
            dtype = Problem.from_cli(row["flags"]).dtype.value
            for output, check in row["checks"].items():
                share = check["row_l2"] / check["row_l2_budget"] if check["row_l2_budget"] else 0.0
                if share > worst.get((dtype, output), (-1.0, {}))[0]:
                    worst[dtype, output] = (share, check)
    return table(
        ("type", "output", "worst row error", "budget"),
        (
            (*key, f"{check['row_l2']:.2e}", f"{check['row_l2_budget']:.2e}")
            for key, (_, check) in sorted(worst.items())
        ),
    )


def ck_executed() -> str:
    """CK-Tile's kernels that were executed and are right, by family and architecture."""
    rows, archs = data_of("emulator_check")["rows"], ("gfx90a", "gfx942", "gfx950", "gfx1201")
    kernels: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row["verdict"] == "PASSED":
            for digest, family in row["kernels"].items():
                kernels[family, row["arch"]].add(digest)
    families = sorted({family for family, _ in kernels})
    lines = [(family, *(len(kernels[family, arch]) for arch in archs)) for family in families]
    lines.append(("**all**", *(sum(len(kernels[family, arch]) for family in families) for arch in archs)))
    for verdict in ("PASSED", "HAZARD"):
        lines.append(
            (
                f"problems {verdict}",
                *(sum(_base(row) == verdict for row in rows if row["arch"] == arch) for arch in archs),
            )
        )
    return table(("", *archs), lines)


def _base(row: Mapping[str, Any]) -> str:
    return str(row["verdict"]).partition(",")[0]


def emulator_speed() -> str:
    """Launches of the emulators, and their own building, before and now; medians of processor time."""
    headings = ("workload", "goal", "before, now [ms]", "ratio (of turns)", "million/s", "load [ms]", "peak [MiB]")
    lines = []
    for row in data_of("emulator_speed")["rows"]:
        found, goal = row.get("summary", {}), f"{row['goal']:g}" if row["goal"] else ""
        if "why" in row:
            lines.append((row["title"], goal, f"NOT_RUN: {row['why']}", "", "", "", ""))
            continue
        ratio, low, high = found["ratio"]
        both = (", ".join(map(str, found.get(name, ()))) for name in ("ms", "load_ms", "peak_mib"))
        times, loads, peaks = both
        speed = str(found.get("million_per_s", ""))
        lines.append((row["title"], goal, times, f"{ratio:.2f} ({low:.2f} to {high:.2f})", speed, loads, peaks))
    return table(headings, lines)


def nvidia_executed() -> str:
    """Rows and distinct kernels on emulated NVIDIA devices."""
    lines = []
    key = lambda row: (row["backend"], row["device"], row["verdict"])  # noqa: E731
    for group, rows in sorted(grouped(data_of("nvptx_emulator")["rows"], key).items()):
        lines.append((*group, len(rows), len({digest for row in rows for digest in row["kernels"]})))
    return table(("backend", "device", "verdict", "rows", "kernels in them"), lines)


def flash_attn_3_executed() -> str:
    """The problems of each feature of FlashAttention-3: how many ran, their rows by verdict and findings, and their kernels."""
    lines = []
    for feature, rows in grouped(data_of("flash_attn_3_check")["rows"], lambda row: row["feature"]).items():
        ran = [row for row in rows if row["verdict"] != "NOT_RUN"]
        said = Counter(", ".join([row["verdict"], *sorted(row["findings"])]) for row in ran)
        problems = (len({row["flags"] for row in some}) for some in (rows, ran))
        kernels = len({digest for row in ran for digest in row["kernels"]})
        lines.append((feature, *problems, "; ".join(f"{count} {words}" for words, count in said.items()), kernels))
    return table(("feature", "problems", "executed", "rows", "kernels"), lines)


def flash_attn_3_faults() -> str:
    """Faults planted in FlashAttention-3's kernels: how each was caught, or why not."""
    rows = [row for row in data_of("flash_attn_3_faults")["rows"] if row["caught"]]
    ways = ("named", "numbers", "hangs")
    lines = []
    for name, some in (*grouped(rows, lambda row: row["kernel"]).items(), ("**all**", rows)):
        counts = Counter(row["caught"] for row in some)
        reasons = ", ".join(f"{n} {way}" for way, n in counts.most_common() if way not in ways)
        lines.append((name, len(some), *(counts[way] for way in ways), reasons))
    return table(("kernel", "planted", "by name", "by numbers alone", "endless", "not caught"), lines)


def anchors() -> str:
    """Kernels of others: architectures, launches that are right, and the error that came closest to its budget."""
    lines = []
    for (name, kernel), rows in grouped(
        data_of("nvptx_anchors")["rows"], lambda row: (row["name"], row["kernel"])
    ).items():
        worst = max(rows, key=lambda row: row["error"] / row["budget"])
        right = sum(row["verdict"] == "right" for row in rows)
        archs = len({row["arch"] for row in rows})
        lines.append(
            (f"{name}: `{kernel}`", archs, f"{right} of {len(rows)}", f"{worst['error']:.1e}", f"{worst['budget']:.1e}")
        )
    return table(("kernel", "architectures", "launches right", "worst error", "its budget"), lines)


def example() -> str:
    """Triton's own example: launches by state of the file, device and size of the cluster."""
    lines = []
    key = lambda row: (row["revision"], f"emu:{row['arch']}", row["ctas"])  # noqa: E731
    for group, rows in sorted(grouped(data_of("gluon_example")["rows"], key).items(), reverse=True):
        right = sum(row["verdict"] == "right" for row in rows)
        within = sum(row["error"] is not None and row["error"] <= row["budget"] for row in rows)
        findings = Counter(kind for row in rows for kind in row["findings"])
        lines.append((*group, len(rows), within, right, ", ".join(f"{kind} in {n}" for kind, n in findings.items())))
    return table(("state", "device", "CTAs", "launches", "O within its budget", "right", "findings"), lines)


def parity() -> str:
    """The outcomes of upstream's cases by group."""
    cases = data_of("emulator_parity")["rows"]
    outcomes = sorted({case["outcome"] for case in cases})
    groups = grouped(cases, lambda case: f"{case['program']} {case['group']}")
    lines = [(name, *(sum(c["outcome"] == o for c in found) for o in outcomes)) for name, found in groups.items()]
    lines.append((f"**all: {len(cases)}**", *(sum(c["outcome"] == o for c in cases) for o in outcomes)))
    return table(("group", *outcomes), lines)


def extremes_cpu() -> str:
    """The families of each run on the CPU."""
    lines = []
    names = ("problems", "rows", "open", "gradients", "unexplained")
    for (fault, _), rows in grouped(data_of("extremes")["rows"], lambda row: (row["fault"], row["device"])).items():
        if not rows[0]["device"]:
            title = f"cpu with the planted fault {fault}" if fault else "cpu"
            lines.append((title, *(f"{sum(row[name] for row in rows):,}" for name in names)))
    return table(("run", "problems", "rows of O", "open", "rows of gradients", "unexplained"), lines)


def extremes_emulated() -> str:
    """The campaign on emulated GPUs, by backend, device, type and keys."""
    lines = []
    every = [row for row in data_of("extremes")["rows"] if row["device"]]
    for key, rows in grouped(
        every, lambda row: tuple(row[name] for name in ("backend", "device", "dtype", "keys"))
    ).items():
        sums = [sum(row[name] for row in rows) for name in ("problems", "rows", "gradients", "leaks")]
        wrong = sum(sum(row["known"].values()) for row in rows)
        unexplained = sum(row["unexplained"] for row in rows)
        lines.append((f"`{key[0]}`", *key[1:], *(f"{value:,}" for value in (*sums, wrong)), unexplained))
    return table(
        ("backend", "device", "type", "keys", "problems", "rows of O", "rows of gradients", "leaks", "wrong, reported", "unexplained"),
        lines,
    )  # fmt: skip


def hazards() -> str:
    """What rules refuse, and whether executing it confirms them."""
    members = ("rule", "backend", "says", "verdict", "state")
    rows = ([row[name] for name in members] for row in data_of("nvptx_hazards")["rows"])
    return table(("rule", "backend", "claim", "verdict", "state"), rows)


def invariances() -> str:
    """For each backend and problem what was found about each property; bold: promised."""
    every = [row for row in data_of("invariance")["rows"] if not row["drawn"]]
    properties = list(dict.fromkeys(row["property"] for row in every))
    words = {"NOT_APPLICABLE": "", "UNSUPPORTED": "unsupported", "HELD": "held"}
    lines = []
    for (backend, device, flags), rows in grouped(
        every, lambda row: (row["backend"], row["device"], row["flags"])
    ).items():
        cells = {row["property"]: words.get(row["outcome"], row["stage"]) for row in rows}
        bold = {row["property"] for row in rows if row["promised"] and cells[row["property"]]}
        told = (f"**{cells[name]}**" if name in bold else cells[name] for name in properties)
        lines.append((f"{backend}, {device}", f"`{flags}`", *told))
    return table(("backend, device", "problem", *properties), lines)


def promises_kept() -> str:
    """The outcomes of random problems by backend and property."""
    every = [row for row in data_of("invariance")["rows"] if row["drawn"]]
    outcomes = [
        name
        for name in ("HELD", "DIFFERS", "BROKEN", "NOT_APPLICABLE", "UNSUPPORTED")
        if any(row["outcome"] == name for row in every)
    ]
    lines = []
    for (backend, name), rows in grouped(every, lambda row: (row["backend"], row["property"])).items():
        counts = Counter(row["outcome"] for row in rows)
        lines.append((backend, name, *(counts[outcome] for outcome in outcomes)))
    return table(("backend", "property", *outcomes), lines)


def printed(name: str, page: str, place: int, *columns: int) -> str:
    """A table that was printed by its script: all columns, or some of them."""
    found = data_of(name)[page][place]
    some = columns or range(len(found["columns"]))
    return table([found["columns"][at] for at in some], ([row[at] for at in some] for row in found["rows"]))


def faults_of_kernels() -> str:
    """Faults planted in assembly: the rows of the printed table, summed by fault."""
    rows = [row for row in data_of("planted_faults")["emulator_faults"][0]["rows"] if row[0] != "**all**"]
    lines = [
        (fault, *(sum(int(row[at]) for row in of) for at in range(2, 6)), _reasons(row[6] for row in of))
        for fault, of in grouped(rows, lambda row: row[1]).items()
    ]
    lines.append(
        ("**all**", *(sum(int(row[at]) for row in rows) for at in range(2, 6)), _reasons(row[6] for row in rows))
    )
    return table(("fault", "planted", "by name", "by numbers alone", "not caught", "of these"), lines)


def _reasons(cells: Iterable[str]) -> str:
    counts: Counter[str] = Counter()
    for cell in cells:
        for number, reason in re.findall(r"(\d+) ([^,]+)", cell):
            counts[reason] += int(number)
    return ", ".join(f"{count} {reason}" for reason, count in counts.most_common())


def triton_targets() -> str:
    """Compiled configurations of Triton's kernels, by architecture."""
    found = data_of("triton_targets")
    at = {name: place for place, name in enumerate(found["columns"])}
    lines = []
    for arch, rows in grouped(found["rows"], lambda row: row[at["arch"]]).items():
        spilled = [int(row[at["spilled"]]) for row in rows]
        lines.append(
            (arch, len(rows), spread(int(row[at["registers"]]) for row in rows), sum(map(bool, spilled)), max(spilled))
        )
    return table(("architecture", "rows", "registers", "rows that spill", "most registers spilled"), lines)


def triton_figures() -> str:
    """The best kernel of each backend for one problem with head dim 128."""
    lines = []
    for row in data_of("triton_figures")["rows"]:
        if row["sort"] != "inspected" or "-d 128 " not in row["flags"]:
            continue
        of = row["figures"]
        registers, shared = of["gpr"] or of["vgpr"], of["shared_bytes"] if of["lds_bytes"] is None else of["lds_bytes"]
        place = (row["arch"], row["backend"])
        lines.append(
            (
                *place,
                registers,
                of["spills"],
                shared,
                of["occupancy"],
                of["instruction_count"],
                of["matrix_instructions"],
            )
        )
    return table(
        ("arch", "backend", "registers", "spills", "LDS or shared bytes", "occupancy", "instructions", "matrix instructions"),
        lines,
    )  # fmt: skip


TABLES: dict[str, Callable[[], str]] = {
    "cpu.zen5": partial(cpu, "zen5", 0),
    "cpu.zen4": partial(cpu, "zen4", 1),
    "cpu.zen4.avx2": partial(cpu, "zen4", 2),
    "cpu.zen3": partial(cpu, "zen3", 1),
    "cpu.intel": partial(cpu, "intel", 19),
    "sessions.times": session_times,
    "sessions.leavings": session_leavings,
    "sessions.small": partial(printed, "sessions", "small", 0),
    "builds.ck": partial(builds, "ck_builds", "ck_tile", "vgpr", "spills", "lds_bytes"),
    "builds.fa": partial(builds, "cuda_builds", "flash_attn", "gpr", "spill_store_bytes", "shared_bytes"),
    "builds.me": partial(builds, "cuda_builds", "mem_efficient", "gpr", "spill_store_bytes", "shared_bytes"),
    "blackwell": partial(verdicts, ("blackwell_check",), "arch", "ctas"),
    "triton.amd": partial(verdicts, ("triton_check",), "arch"),
    "triton.nvidia": partial(verdicts, ("triton_nvidia",), "arch"),
    "triton.targets": triton_targets,
    "triton.figures": triton_figures,
    "emulator.executed": ck_executed,
    "emulator.errors": partial(worst_errors, "emulator_check"),
    "emulator_speed.all": emulator_speed,
    "nvptx.executed": nvidia_executed,
    "nvptx.errors": partial(worst_errors, "nvptx_emulator"),
    "nvptx.fa3": flash_attn_3_executed,
    "nvptx.fa3.faults": flash_attn_3_faults,
    "nvptx.anchors": anchors,
    "nvptx.hazards": hazards,
    "invariance": invariances,
    "invariance.promised": promises_kept,
    "nvptx.faults": partial(printed, "planted_faults", "nvptx_emulator_faults", 0, 0, 1, 2, 3, 5),
    "nvptx.faults.kernels": partial(printed, "planted_faults", "nvptx_emulator_faults", 1, *range(6)),
    "gluon.example": example,
    "parity": parity,
    "extremes.cpu": extremes_cpu,
    "extremes.emulated": extremes_emulated,
    "emulator.faults": faults_of_kernels,
    "test_runs.readme": partial(printed, "test_runs", "tables", 0),
    "test_runs.ci": partial(printed, "test_runs", "tables", 1),
}
