"""The common parts of the checks that build kernels: their lists, the builds, the figures, the summary."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.api import FmhaError, KernelSpec, Registry
from fmha_cli.plugin import Artifact, BuildContext, Stage, cache_root
from fmha_cli.report.documents.inspect import inspect_document
from fmha_cli.report.documents.inspections import figures_of
from fmha_cli.run.builds import KernelOutcome, build_orders
from fmha_cli.run.request import Order
from tests.checks.check import Row, build_key

Referee = Callable[[KernelSpec, Artifact, Mapping[str, Any]], tuple[list[str], dict[str, Any]]]
"""(kernel, what was built, what ``inspect`` read in it) -> the disagreements of other tools, and further members of the row."""


@dataclass(frozen=True)
class KernelBuild:
    """A kernel to build.

    Attributes:
        kernel: upstream's name.
        shows: in words, why it is in the list.
        ci: whether CI builds it.
    """

    backend: str
    arch: str
    family: str
    kernel: str
    shows: str
    ci: bool = False

    @property
    def name(self) -> str:
        return f"{self.backend} {self.arch} {self.family}: {self.shows}{', in CI' * self.ci}"


def listed(backend: str) -> list[KernelBuild]:
    """The list of a backend."""
    path = Path(__file__).with_name(f"{backend}_kernels.json")
    return [KernelBuild(backend, **entry) for entry in json.loads(path.read_text("utf-8"))["kernels"]]


def build(kernels: Iterable[KernelSpec], registry: Registry, context: BuildContext) -> Mapping[str, KernelOutcome]:
    """Build the kernels, as many at once as the context says; returns digest -> outcome."""
    return build_orders([Order(Stage(kernel)) for kernel in kernels], registry, context)


def key_of(kernel: KernelSpec, registry: Registry) -> str:
    """The key of a kernel's build."""
    context = BuildContext(cache_root=cache_root())
    return build_key(registry.backend(kernel.backend), Stage(kernel), context)


def built_row(case: KernelBuild, kernel: KernelSpec, registry: Registry, referee: Referee) -> dict[str, Any]:
    """Build one kernel; its row."""
    context = BuildContext(
        cache_root=cache_root(), jobs=1, notify=lambda text: print(text, file=sys.stderr, flush=True)
    )
    return row_of(case, kernel, build([kernel], registry, context)[kernel.digest], registry, referee)


def row_of(
    case: KernelBuild, kernel: KernelSpec, built: KernelOutcome, registry: Registry, referee: Referee
) -> dict[str, Any]:
    """All figures of one kernel, and the disagreements."""
    row: dict[str, Any] = {
        "backend": case.backend, "arch": case.arch, "family": case.family, "kernel": case.kernel, "shows": case.shows,
        "name": kernel.name, "error": None, "disagreements": [],
    }  # fmt: skip
    try:
        if built.value is None:
            raise built.error or AssertionError(built.name)
        findings = registry.backend(kernel.backend).inspect(kernel, built.value)
    except FmhaError as error:
        return {**row, "error": error.what, "why": error.why}
    figures = vars(figures_of(inspect_document(kernel, findings, built.value)))
    faults, more = referee(kernel, built.value, findings)
    peak = figures["compile_peak_bytes"]
    return {
        **row,
        **{key: value for key, value in figures.items() if value is not None},
        **more,
        "build_s": round(built.value.build_seconds, 1),
        "cached": built.value.cached,
        "memory_mib": None if peak is None else round(peak / 2**20),
        "disagreements": faults,
    }


def sort_of(row: Row) -> str:
    """For the summary."""
    state = "does not build" if row["error"] else "differs" if row["disagreements"] else "agrees"
    return f"{row['backend']} {row['family']}, {state}"


def good(row: Row) -> bool:
    """Whether a kernel was built, and no figure of it differs."""
    return not row["error"] and not row["disagreements"]


def summary(rows: Sequence[Row]) -> str:
    """The compilers of the kernels, and the cost of the builds."""
    done = [row for row in rows if not row["error"]]
    compilers = "; ".join(sorted({str(row["compiler"]) for row in done}))
    times, memory = [row["build_s"] for row in done], [row["memory_mib"] or 0 for row in done]
    cost = f"{sum(times):.0f} s of all compiles, the longest {max(times, default=0):.0f} s, the largest {max(memory, default=0)} MiB"
    return f"{len(done)} of {len(rows)} kernels build by {compilers}; {cost}."
