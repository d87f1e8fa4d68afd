"""The Triton kernels next to those of FlashAttention-2 and Composable Kernel for the same problems: the needs and
executed instructions of each.

For each problem and architecture, each backend's best kernel is built and inspected: registers, spills, shared memory (LDS), occupancy,
instructions, matrix instructions. On emulated AMD devices the same kernels execute a small problem; their matrix operations are compared with the
problem's FLOPs. More than 1 means work on padding and masked tiles. A backend that has no kernel here has a row that says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fmha_cli import api, plugin
from fmha_cli.domain.codec import to_json
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of
from tests.checks.check import Check, Row, builds
from tests.checks.tables import table

LARGE = "-b 4 -H 32 -s 2048 -d {d} --dtype fp16 --causal --lse"
SMALL = "-b 1 -H 2 -s 256 -d {d} --dtype fp16 --causal --lse"
PAIRS = (("sm_80", "flash_attn"), ("sm_90a", "flash_attn"), ("gfx942", "ck_tile"), ("gfx950", "ck_tile"))
EXECUTED = ("gfx942", "gfx950")
FIGURES = (
    "vgpr", "agpr", "sgpr", "gpr", "spills", "sgpr_spills", "lds_bytes", "shared_bytes", "occupancy",
    "instruction_count", "matrix_instructions", "code_bytes",
)  # fmt: skip
registry = cache(api.build_registry)


@dataclass(frozen=True)
class BestKernel:
    """The best kernel of a backend for a head dim on an architecture."""

    backend: str
    arch: str
    hdim: int

    @property
    def name(self) -> str:
        return f"{self.arch} {self.backend} d{self.hdim}"

    @property
    def device(self) -> plugin.DeviceFacts:
        return plugin.DeviceFacts(id="none", archs=(self.arch, self.arch.removesuffix("a")), units=132)


def cases() -> Iterator[BestKernel]:
    """Triton's kernels, and each architecture's other backend."""
    return (BestKernel(b, arch, d) for arch, other in PAIRS for d in (64, 128) for b in ("triton", other))


def rows_of(case: BestKernel) -> Iterator[Row]:
    """The kernel's needs, and its executed instructions."""
    flags = LARGE.format(d=case.hdim)
    row: dict[str, Any] = {"sort": "inspected", "backend": case.backend, "arch": case.arch, "flags": flags}
    one = registry().backend(case.backend)
    found = [d for d in one.decide(api.Problem.from_cli(flags), case.device) if isinstance(d, api.Supported)]
    if not found:
        yield {**row, "kernel": None, "why": "no kernel fits", "figures": {}}
        return
    kernel = min(found, key=lambda d: d.rank).kernel
    artifact = one.build(plugin.Stage(kernel), plugin.BuildContext(cache_root=plugin.cache_root()))
    figures = vars(figures_of(inspect_document(kernel, one.inspect(kernel, artifact), artifact)))
    yield {**row, "kernel": kernel.name, "why": None, "figures": {name: figures[name] for name in FIGURES}}
    if case.arch in EXECUTED:
        yield executed(case, kernel.name)


def executed(case: BestKernel, kernel: str) -> Row:
    """The executed instructions of a kernel for a small problem on an emulated device."""
    flags = SMALL.format(d=case.hdim)
    problem = api.Problem.from_cli(flags)
    (record,) = api.run(problem, backend=case.backend, device=f"emu:{case.arch}", kernel=kernel)
    stages = to_json(record)["executed"] or ()
    total = {key: sum(stage[key] for stage in stages) for key in ("instructions", "matrix_flops")}
    return {
        "sort": "executed", "backend": case.backend, "arch": case.arch, "flags": flags, "flops": problem.flops(),
        "verdict": record.verdict.value, **total, "ratio": round(total["matrix_flops"] / problem.flops(), 3),
    }  # fmt: skip


def summary(rows: Sequence[Row]) -> str:
    """Both tables."""
    inspected = [row for row in rows if row["sort"] == "inspected"]
    names = [name for name in FIGURES if any(row["figures"].get(name) is not None for row in inspected)]
    needs = (
        (r["arch"], r["backend"], f"`{r['flags']}`", *(r["figures"].get(n) for n in names), r["why"]) for r in inspected
    )
    runs = (
        (f"emu:{r['arch']}", r["backend"], f"`{r['flags']}`", r["verdict"], r["instructions"], r["ratio"])
        for r in rows
        if r["sort"] == "executed"
    )
    columns = ("device", "backend", "problem", "verdict", "wave instructions", "matrix operations / FLOPs")
    return f"{table(('arch', 'backend', 'problem', *names, ''), needs)}\n\n{table(columns, runs)}"


CHECK = Check(
    cases=cases,
    name=lambda case: case.name,
    carry_out=rows_of,
    depends=lambda case: builds(registry(), case.backend, LARGE.format(d=case.hdim), case.device),
    good=lambda row: row.get("verdict", "PASSED") == "PASSED",
    by=("arch", "sort"),
    summarise=summary,
)
