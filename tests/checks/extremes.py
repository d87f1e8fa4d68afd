"""Run kernels on problems with extreme numbers; two referees that know nothing of the product check every row in
addition to its verdict.

Scores from 1e-30 to 3e38, biases from -inf to inf with those of padding masks, NaN where no query may look, learned sinks up to 3.4e38. The referees
are a formula in numpy's float64 and PyTorch's float64 with autograd (``tests/support/referees/attention.py``). A row is good if nothing is
unexplained: what the verdict accepts and a referee does not, or the opposite, or what both call wrong and no report of a known fault names. With a
planted fault, it is good if the verdict and the referees see it in the same problems.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from fmha_cli import api, plugin
from fmha_cli.domain.processor import this_processor
from fmha_cli.run.request import Request
from tests.checks.check import Check, Row, product
from tests.checks.tables import table
from tests.support.builds.planted_cpu import planted
from tests.support.generators.extreme_draws import drawn, plan
from tests.support.generators.extreme_problem import Family
from tests.support.models.faults import ExtremeFault
from tests.support.referees.extreme_attention import run
from tests.support.referees.extreme_judging import ACCEPTED, Judged

GPU_FAMILIES = tuple(family for family in Family if family not in (Family.BYTES, Family.NARROW))
CPU_ARCHS = ("x86_64_amx", "x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "generic")
PLANTED = (Family.PREFILL, Family.DECODE, Family.SPLIT, Family.PAGED, Family.BACKWARD)
COUNTS = ("rows", "open", "gradients", "leaks", "apart")
ODD = ("unexplained", "referees differ")


@dataclass(frozen=True)
class ExtremeRun:
    """Problems of one family for a backend.

    Attributes:
        dtypes: types of Q, in turn.
        count: problems on each architecture.
        square: so many keys and as many rows, with a causal mask; 0: 17 to 64 keys.
        fault: planted in the CPU's kernels.
    """

    family: Family
    backend: str
    device: str | None
    archs: tuple[str | None, ...]
    dtypes: tuple[str, ...]
    count: int
    seed: int = 0
    square: int = 0
    fault: ExtremeFault | None = None

    @property
    def name(self) -> str:
        words = (
            self.backend,
            self.device,
            " ".join(self.dtypes),
            f"{self.square} keys" * bool(self.square),
            self.fault and self.fault.value,
        )
        return f"{' '.join(filter(None, words))}: {self.family.value}"


def cases() -> Iterator[ExtremeRun]:
    """The CPU's kernels on all their architectures, two planted faults, then the kernels that emulated devices execute."""
    for family in Family:
        yield ExtremeRun(family, "cpu", None, CPU_ARCHS, ("fp32", "bf16", "fp16"), 6)
    for fault in (ExtremeFault.SCALED_MAXIMUM, ExtremeFault.BIASED_KEY):
        for family in PLANTED:
            yield ExtremeRun(family, "cpu", None, ("x86_64_v4",), ("fp32", "bf16", "fp16"), 2, 60_034, fault=fault)
    for backend, device in (("ck_tile", "emu:gfx942"), ("flash_attn", "emu:sm_80"), ("mem_efficient", "emu:sm_80"), ("triton", "emu:gfx942"), ("triton", "emu:sm_80")):  # fmt: skip
        for dtype in ("bf16", "fp16"):
            yield from (ExtremeRun(family, backend, device, (None,), (dtype,), 24) for family in GPU_FAMILIES)
            if backend == "triton":
                for family in (Family.PREFILL, Family.BACKWARD):
                    yield ExtremeRun(family, backend, device, (None,), (dtype,), 12, square=256)
    yield ExtremeRun(Family.PREFILL, "ck_tile", "emu:gfx942", (None,), ("fp32",), 16)
    yield from (ExtremeRun(f, "mem_efficient", "emu:sm_80", (None,), ("fp32",), 24) for f in GPU_FAMILIES)
    for backend, arch, square in (("cudnn_oss", "sm_90a", 128), ("cudnn_oss", "sm_100a", 256), ("cudnn_oss", "sm_103a", 256), ("triton", "sm_90a", 256), ("triton", "sm_100a", 256)):  # fmt: skip
        yield ExtremeRun(Family.PREFILL, backend, f"emu:{arch}", (None,), ("bf16",), 24, square=square)


def families_of(one: ExtremeRun) -> Sequence[Family]:
    """The families among which the numbers of its problems are dealt out: those of the same run."""
    same = [c.family for c in cases() if (c.backend, c.device, c.dtypes, c.square, c.fault) == (one.backend, one.device, one.dtypes, one.square, one.fault)]  # fmt: skip
    return tuple(same)


def judged(one: ExtremeRun) -> Iterator[Judged]:
    """Every problem of a run, on every architecture."""
    registry, families = api.build_registry(), families_of(one)
    for step, arch in enumerate(one.archs):
        for number, family, dtype in plan(one.count, one.seed + 1000 * step, families, one.dtypes):
            if family is one.family:
                dtype = "bf16" if arch == "x86_64_amx" else dtype
                problem = drawn(number, family, dtype, plain=one.backend != "cpu", square=one.square)
                yield run(problem, registry, backend=one.backend, device=one.device, arch=arch)


def row_of(one: ExtremeRun) -> Row:
    """Execute a run. Products and sums are those of ptxas on emulated NVIDIA devices."""
    hardware = (one.device or "").startswith("emu:sm_")
    arithmetic = plugin.Arithmetic.HARDWARE if hardware else plugin.Arithmetic.DOCUMENT
    with ExitStack() as stack:
        if one.fault:
            stack.enter_context(patch("fmha_cli.backends.cpu.building.emit", partial(planted, fault=one.fault)))
        stack.enter_context(patch("fmha_cli.run.attention.Request", partial(Request, emu_arith=arithmetic)))
        done = list(judged(one))
    odd = [found for found in done if found.outcome in ODD]
    for found in odd if one.fault is None else ():
        print(found.text, file=sys.stderr, flush=True)
    return {
        "backend": one.backend, "device": one.device, "dtype": ", ".join(one.dtypes), "keys": str(one.square or "17 to 64"),
        "fault": one.fault and one.fault.value, "host": this_processor().text, "family": one.family.value, **counts(done),
        "unseen": sum((found.verdict in ACCEPTED) != found.right for found in done if found.verdict != "UNSUPPORTED"),
    }  # fmt: skip


def counts(done: Sequence[Judged]) -> Mapping[str, Any]:
    """The kept record of a run's problems."""
    found: Counter[str] = Counter()
    for one in done:
        found["problems"] += one.verdict != "UNSUPPORTED"
        found["unexplained"] += one.outcome in ODD
        found.update({name: getattr(one, name) for name in COUNTS})
    texts = Counter(f"{one.verdict}, {'right' if one.right else 'wrong'}: {one.outcome}" for one in done)
    return {
        **{name: found[name] for name in ("problems", *COUNTS, "unexplained")},
        "outcomes": dict(sorted(texts.items())),
        "known": dict(sum((one.known for one in done), Counter[str]())),
        "archs": sorted({one.arch for one in done if one.verdict != "UNSUPPORTED"}),
    }


def good(row: Row) -> bool:
    """Whether nothing is unexplained; of a planted fault, whether verdict and referees see the same."""
    return not (row["unseen"] if row["fault"] else row["unexplained"])


def summary(rows: Sequence[Row]) -> str:
    """The counts of each run."""
    names = ("problems", "rows", "open", "gradients", "leaks", "unexplained")
    lines = (
        (
            f"`{row['backend']}`{' with ' + row['fault'] if row['fault'] else ''}", row["device"], row["dtype"], row["keys"], row["family"],
            *(f"{row[name]:,}" for name in names), ", ".join(f"{text} {n}" for text, n in row["known"].items()),
        )
        for row in rows
        if row["problems"]
    )  # fmt: skip
    return table(("backend", "device", "type", "keys", "family", *names, "wrong rows, by report"), lines)


CHECK = Check(
    cases=cases,
    name=lambda one: one.name,
    carry_out=row_of,
    depends=lambda one: product("fmha-amdgpu-emu", "fmha-nvptx-emu"),
    good=good,
    by=("backend", "device"),
    summarise=summary,
)
