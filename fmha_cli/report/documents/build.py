"""``fmha.build/1``: the outcome of each requested build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from fmha_cli.domain.errors import EnvironmentProblem, FmhaError, Interrupted, UnsupportedError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count, Least
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.quantities import duration
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, counted
from fmha_cli.report.parts import ArtifactRow, ErrorRow, KernelRow
from fmha_cli.report.table import Table


class BuildState(StrEnum):
    """The outcome of building one kernel with ``fmha build``."""

    COMPILED = "compiled"
    CACHED = "cached"
    FAILED = "failed"
    """The compiler failed, or ran out of time."""
    REFUSED = "refused"
    """A rule says that the kernel cannot exist on its architecture; nothing was compiled."""
    NOT_RUN = "not-run"
    """No compiler, no sources, or sources of another revision; or the user interrupted."""


def build_state(outcome: Artifact | FmhaError) -> BuildState:
    """The state that corresponds to an outcome."""
    if isinstance(outcome, UnsupportedError):
        return BuildState.REFUSED
    if isinstance(outcome, EnvironmentProblem | Interrupted):
        return BuildState.NOT_RUN
    if isinstance(outcome, FmhaError):
        return BuildState.FAILED
    return BuildState.CACHED if outcome.cached else BuildState.COMPILED


@dataclass(frozen=True, kw_only=True)
class BuildRow:
    """One kernel: its artifact, or why there is none."""

    kernel: KernelRow
    backend: str
    state: BuildState
    arch: str
    artifact: ArtifactRow | None
    error: ErrorRow | None


@dataclass(frozen=True, kw_only=True)
class Builds:
    """build --json."""

    schema: Literal["fmha.build/1"] = "fmha.build/1"
    compiled: Count
    cached: Count
    failed: Annotated[int, Least(0), "the compiler failed or ran out of time"]
    refused: Annotated[int, Least(0), "a rule says that the kernel cannot exist; not compiled"]
    not_run: Annotated[int, Least(0), "no compiler or no sources for it"]
    builds: tuple[BuildRow, ...]


def build_entry(kernel: KernelSpec, outcome: Artifact | FmhaError, upstream_name: str | None = None) -> BuildRow:
    """One kernel of ``fmha build``."""
    return BuildRow(
        kernel=KernelRow.of(kernel, upstream_name),
        backend=kernel.backend,
        state=build_state(outcome),
        arch=kernel.arch,
        artifact=None if isinstance(outcome, FmhaError) else ArtifactRow.of(outcome),
        error=ErrorRow.of(outcome) if isinstance(outcome, FmhaError) else None,
    )


def build_document(entries: Sequence[BuildRow]) -> Builds:
    """The document of the entries, with their counts."""
    found = Counter(entry.state for entry in entries)
    counts: dict[str, Any] = {state.value.replace("-", "_"): found[state] for state in BuildState}
    return Builds(builds=tuple(entries), **counts)


_MOST_DIGESTS = 4
_COLUMNS = (
    Column("digest", path="kernel.digest"),
    Column("family", path="kernel.family", common="{}".format, rank=2),
    Column("backend", path="backend", common="{}".format, rank=3),
    Column("arch", path="arch", common="{}".format, rank=1),
    Column("state", path="state"),
    Column("build time", path="artifact.build_ns", rank=4),
    Column("upstream name", path="kernel.upstream_name", fit=Fit.MIDDLE, least=24, rank=5),
)


def build_view(document: Builds) -> Table:
    """One line for each kernel; below, each error once with the kernels that it concerns."""
    rows = []
    errors: dict[tuple[str, ...], list[str]] = {}
    for build in document.builds:
        kernel, error, digest = build.kernel, build.error, build.kernel.digest[:SHORT]
        took = duration(build.artifact.build_ns) if build.artifact else ""
        rows.append([digest, kernel.family, build.backend, build.arch, build.state, took, kernel.upstream_name or ""])
        if error:
            what = error.what.replace(kernel.name, "this kernel")
            parts = (f"error[{error.code}]: {what}", error.where, error.why, error.help)
            general = tuple(part for part in parts if part and part not in (kernel.name, kernel.digest))
            errors.setdefault(general, []).append(digest)
    brought = Counter(by for b in document.builds if b.artifact and (by := b.artifact.prebuilt_by))
    details = [f"  {counted(n, 'kernel')} prebuilt by {by}" for by, n in sorted(brought.items())]
    for lines, digests in errors.items():
        who = " ".join(digests[:_MOST_DIGESTS]) + (
            f" and {len(digests) - _MOST_DIGESTS} more" if len(digests) > _MOST_DIGESTS else ""
        )
        details += [f"  {who}: {line}" for line in lines]
    counts = {key: getattr(document, key) for key in ("compiled", "cached", "failed", "refused", "not_run")}
    shown = {key: n for key, n in counts.items() if n or key not in ("refused", "not_run")}
    tally = ", ".join(f"{n} {key.replace('_', ' ')}" for key, n in shown.items())
    return Table(_COLUMNS, rows, f"{counted(len(rows), 'kernel')}: {tally}", details)


DOCUMENTS = (Document(Builds, build_view, rows="builds", columns=_COLUMNS),)
