"""Run kernels on problems with extreme numbers; two referees that know nothing of the product check every row beside its verdict.

    python benchmarks/extremes.py [--backend cpu] [--device D] [--arch A ...] [--count 12] [--seed 0] [--fault scaled_maximum] [--write]

Scores from 1e-30 to 3e38, biases from -inf to inf with those of padding masks, NaN where no query may look, learned sinks up to 3.4e38.
The referees are a formula in numpy's float64 and PyTorch's float64 with autograd (``referees/attention.py``). What is unexplained is
printed, and the exit code is 1 if there is any. ``--write`` puts the counts into results/data/extremes.json.xz, and makes extremes.md of it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fmha_cli import api
from fmha_cli.backends.gpu.known_bad import known_bad
from fmha_cli.domain.processor import this_processor
from fmha_cli.walk.request import Request
from tests.support.generators.extreme_draws import drawn, plan
from tests.support.generators.extreme_problem import Drawn, Family
from tests.support.models.faults import ExtremeFault
from tests.support.referees.extreme_judging import EMPTY, HIDDEN, JOINED, LARGE, OVERFLOWS, ROUGH, SINK, Judged, judge

GPU_FAMILIES = tuple(family for family in Family if family not in (Family.BYTES, Family.NARROW))
CPU = ("x86_64_amx", "x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "generic")
RESULTS = Path(__file__).parent.parent / "results"
COUNTS = ("rows", "open", "gradients", "leaks", "apart")
SHORT = {
    LARGE: "large scores",
    ROUGH: "LSE in fp32",
    JOINED: "joined parts",
    OVERFLOWS: "finfo.min",
    EMPTY: "a row of -inf",
    HIDDEN: "NaN under -inf",
    SINK: "large sinks",
}
"""Words of a report -> its name on the page."""
NOT_RUN = (
    "NOT_RUN: every kernel on a GPU (none was there). On emulated devices: kernels of other architectures than these, head dims other than",
    "64, 8-bit inputs and caches, and what a kernel is not made for (`fmha explain` has the rules): a bias in FlashAttention-2's, learned sinks",
    "in all but Triton's, gradients of cuDNN's, appended keys in Triton's, negative scales and most biases of packed sequences in CK-Tile's.",
)


def run(problem: Drawn, args: argparse.Namespace, arch: str | None, registry: api.Registry) -> Judged:
    """Run one problem through the product's Python entry, and judge it."""
    tensors = dict(problem.tensors)
    first = {name: tensors.pop(name, None) for name in ("q", "k", "v", "do")}
    options = {"backend": args.backend, "device": args.device, "arch": arch, "registry": registry}
    try:
        found = api.attention(**first, tensors=tensors, **options, **problem.flags)
    except api.UnsupportedError as no:
        return Judged(problem, str(arch), "UNSUPPORTED", str(no.why))
    except api.KernelFailure as no:
        return Judged(problem, str(arch), "FAILED", f"{no}: {no.why}")
    record = found.record
    out = Judged(problem, str(record.arch), record.verdict.value, "; ".join(record.notes))
    on_gpu = args.backend != "cpu"
    kernels = [registry.parse_kernel(stage.kernel) for stage in record.stages] if on_gpu else []
    reports = [bad for bad in known_bad(args.backend) if any(bad.meets(kernel) for kernel in kernels)]
    out.failed = frozenset(
        name for found_by in record.comparisons for name, check in found_by.checks if not check.passed
    )
    out.hazards = any(bad.finding for bad in reports)
    return judge(out, found.outputs, reports=reports, on_gpu=on_gpu, torch=args.torch)


def outcomes(args: argparse.Namespace) -> Iterator[Judged]:
    """Every problem, on every architecture."""
    registry, on_cpu = api.build_registry(), args.backend == "cpu"
    families = args.family or (list(Family) if on_cpu else GPU_FAMILIES)
    for step, arch in enumerate(args.arch or (CPU if on_cpu else (None,))):
        types = args.dtype or (("fp32", "bf16", "fp16") if on_cpu else ("fp16", "bf16"))
        for number, family, dtype in plan(args.count, args.seed + 1000 * step, families, types):
            dtype = "bf16" if arch == "x86_64_amx" else dtype
            yield run(drawn(number, family, dtype, plain=not on_cpu, square=args.square), args, arch, registry)


def counts_of(done: Sequence[Judged]) -> dict[str, Any]:
    """What the page keeps of a run."""
    families: dict[str, Counter[str]] = defaultdict(Counter)
    table: Counter[str] = Counter()
    for one in done:
        referees = "right" if one.right else "wrong"
        table[f"{one.verdict}, {referees}: {one.outcome}"] += 1
        row = families[one.drawn.family.value]
        row["problems"] += one.verdict != "UNSUPPORTED"
        row["unexplained"] += one.outcome in ("unexplained", "referees differ")
        row.update({name: getattr(one, name) for name in COUNTS})
    return {
        "families": {name: dict(row) for name, row in families.items()},
        "outcomes": dict(sorted(table.items())),
        "known": dict(sum((one.known for one in done), Counter())),
        "archs": sorted({one.arch for one in done if one.verdict != "UNSUPPORTED"}),
    }


def page(document: Mapping[str, Any]) -> str:
    """The page of all runs that were kept."""
    lines = [
        "# Extreme numbers, judged by two referees of other authors",
        "",
        "`python benchmarks/extremes.py` draws problems with scores from 1e-30 to 3e38, biases from -inf to inf, NaN where no query may look and",
        "learned sinks up to 3.4e38, and gives them to `api.attention` as arrays. A formula in numpy's float64 and PyTorch's float64 with",
        "autograd check every row of O, LSE, dQ, dK, dV and dBias beside the verdict (`tests/support/referees/attention.py` says how far a",
        "number may be off, which follows from the rounding of scores to single precision).",
        "",
        "*Open* rows are those in which this rounding decides which keys count: there an element of O must lie where weights within the error of",
        "the scores can take it, and never be 0 throughout. *Leaks*: rows with NaN from a hidden key, accepted of kernels for GPUs",
        "([numerics](../docs/explanation/numerics.md#the-rules)). *Unexplained*: what the verdict accepts and a referee does not, or the opposite; and what both",
        "call wrong, unless a report of `arch_specs/_known_bad.json` about the kernel names the row. The two referees never differed by more",
        "than float64 explains. The product has no gradient of learned sinks. Rotary embedding and MX types are not drawn.",
    ]
    for one in document["runs"]:
        planted = " Verdict and referees see the planted fault in the same problems, which count as unexplained." * (
            "planted" in one["title"]
        )
        lines += ["", f"## {one['title']}", "", f"`{one['command']}`", "", f"{one['machine']}.{planted}", ""]
        lines += [
            "| family | problems | rows of O | open | rows of gradients | leaks | unexplained |",
            "|---|---|---|---|---|---|---|",
        ]
        for family, row in one["families"].items():
            if row["problems"]:
                cells = (row[name] for name in ("problems", "rows", "open", "gradients", "leaks", "unexplained"))
                lines.append(f"| {family} | " + " | ".join(f"{x:,}" for x in cells) + " |")
        lines += ["", "| verdict, referees: outcome | problems |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in one["outcomes"].items()]
    return "\n".join([*lines, *emulated(document["emulated"])]) + "\n"


def emulated(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of the runs on emulated devices."""
    lines = [
        "",
        "## Emulated GPUs",
        "",
        "Kernels of the backends' choice, head dim 64. A problem that a backend refuses is not counted. *Wrong rows* are those of O, LSE and",
        "gradients that a referee calls wrong, by the report that explains them ([numerics](../docs/explanation/numerics.md#extreme-scores-on-gpus)):",
        "*large scores* (O must be 0, too small or not finite), *LSE in fp32* (the gradient must be one of P = exp(s - LSE) with the roundings of",
        "s and of the LSE), *joined parts* (O must be of weights from such an LSE), *finfo.min* (O must be NaN or 0), *a row of -inf*, *NaN under",
        "-inf* and *large sinks* (O must be NaN). *Scaled dS* counts problems whose dQ or dK the verdict calls WRONG, and the referees do not.",
        "",
        "| backend | device | type | keys | families | problems | rows of O | rows of gradients | leaks | wrong rows, by report | unexplained |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in runs:
        rows = [row for row in one["families"].values() if row["problems"]]
        problems, o, gradients, leaks, unexplained = (
            sum(row[name] for row in rows) for name in ("problems", "rows", "gradients", "leaks", "unexplained")
        )
        scaled = sum(count for text, count in one["outcomes"].items() if "scaled dS" in text)
        named = [f"{SHORT[words]} {count:,}" for words, count in sorted(one["known"].items())]
        named += [f"scaled dS in {scaled} problem{'s' * (scaled > 1)}"] * bool(scaled)
        lines.append(
            f"| `{one['backend']}` | {one['device']} | {one['dtype']} | {one.get('keys', '')} | {len(rows)} | {problems} | {o:,} | {gradients:,} | {leaks:,}"
            f" | {', '.join(named) or 'none'} | {unexplained} |"
        )
    lines += ["", f"Emulated by: {' and '.join(sorted({one['host'] for one in runs}))}.", "", "```text"]
    lines += [one["command"] for one in runs]
    return [*lines, "```", "", *NOT_RUN]


def write(args: argparse.Namespace, argv: Sequence[str], found: Mapping[str, Any]) -> None:
    """Put a run in the place of the same one."""
    path = RESULTS / "data" / "extremes.json.xz"
    document = json.loads(lzma.decompress(path.read_bytes()))
    command, host = f"python benchmarks/extremes.py {shlex.join(argv)}", this_processor().text
    if args.device:
        kind = {"backend": args.backend, "device": args.device, "dtype": ", ".join(args.dtype or ("fp16", "bf16"))}
        kind["keys"] = str(args.square or "17 to 64")
        one = {**kind, "command": command, "host": host, **found}
        kept = [old for old in document["emulated"] if not kind.items() <= old.items()]
        document["emulated"] = sorted(
            [*kept, one], key=lambda run: (run["backend"], run["device"], run["dtype"], run.get("keys", ""))
        )
    else:
        title = f"{args.backend} with the planted fault {args.fault.value}" if args.fault else args.backend
        machine = f"Architectures: {', '.join(found['archs'])}; host: {host}"
        one = {"title": title, "command": command, "machine": machine, **found}
        document["runs"] = [old for old in document["runs"] if old["title"] != title] + [one]
    path.write_bytes(lzma.compress(json.dumps(document).encode()))
    (RESULTS / "extremes.md").write_text(page(document), encoding="utf-8")


def main(argv: Sequence[str]) -> int:
    """Run the script. Returns 1 if anything is unexplained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--device")
    parser.add_argument(
        "--arch", action="append", help="kernels' architectures [default: on the CPU all x86 levels and generic]"
    )
    parser.add_argument("--family", action="append", type=Family)
    parser.add_argument("--dtype", action="append", help="types of Q [default: fp32, bf16, fp16; on GPUs fp16, bf16]")
    parser.add_argument("--count", type=int, default=12, help="problems of each family on each architecture")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--emu-arith", type=api.Arithmetic, default=api.Arithmetic.DOCUMENT)
    parser.add_argument("--square", type=int, default=0, help="so many keys and as many rows, with a causal mask")
    parser.add_argument("--fault", type=ExtremeFault, help="plant a fault in the CPU's kernels")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="without PyTorch as the second referee")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    done = []
    with ExitStack() as stack:
        if args.fault:
            from tests.support.builds.planted_cpu import planted  # of tests/

            stack.enter_context(patch("fmha_cli.backends.cpu.building.emit", partial(planted, fault=args.fault)))
        stack.enter_context(patch("fmha_cli.walk.attention.Request", partial(Request, emu_arith=args.emu_arith)))
        for one in outcomes(args):
            done.append(one)
            if one.outcome in ("unexplained", "referees differ"):
                print(one.text, file=sys.stderr, flush=True)
    found = counts_of(done)
    print(json.dumps(found, indent=1))
    if args.write:
        write(args, [word for word in argv if word != "--write"], found)
    return int(any(row["unexplained"] for row in found["families"].values()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
