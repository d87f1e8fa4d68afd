"""The parts of a record for which the domain has no type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, get_args

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.kernel import Family, KernelSpec
from fmha_cli.domain.members import Count, Hex64, Named, Sha256, ShownAs
from fmha_cli.domain.plan import Artifact, Plan
from fmha_cli.domain.signature import Signature
from fmha_cli.domain.verdict import Check, Comparison

Output = Literal["o", "lse", "dq", "dk", "dv", "dbias"]
OUTPUTS: tuple[Output, ...] = get_args(Output)
"""The outputs that can be checked, in the order in which they are shown."""

Checks = Annotated[
    Mapping[Output, Check | None],
    "One fill: a check for every output, null where it was not checked.",
    Named("comparison"),
]


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """A kernel as a record shows it, readable without the backend that made it.

    ``signature`` and ``algorithm`` hold all their fields as plain values.
    """

    name: Annotated[str, "canonical name"]
    digest: Hex64
    family: Family
    signature: Annotated[Mapping[str, Any], ShownAs(Signature)]
    algorithm: Annotated[Mapping[str, Any], "the backend's free choices"]
    upstream_name: Annotated[str | None, "file stem in the kernel's own project"] = None

    @classmethod
    def of(cls, kernel: KernelSpec, upstream_name: str | None = None, **more: Any) -> Self:
        """The row of a kernel; ``more`` gives the further fields of a subclass."""
        return cls(
            name=kernel.name,
            digest=kernel.digest,
            family=kernel.family,
            signature=to_json(kernel.signature),
            algorithm=to_json(kernel.algorithm),
            upstream_name=upstream_name,
            **more,
        )


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage of the plan: its kernel's name, the median time of the stage, and the artifact that ran.

    ``artifact_sha256``, ``cached`` and ``build_ns`` are None if nothing was built. For a cached artifact, ``build_ns``
    is the duration of its original build.
    """

    family: Family
    kernel: str
    digest: Sha256
    time_ns: Annotated[Count | None, "median of the stage"] = None
    artifact_sha256: Sha256 | None = None
    cached: bool | None = None
    build_ns: Count | None = None
    prebuilt_by: Annotated[str | None, "compiler of a kernel that an archive brought"] = None


def stage_rows(
    plan: Plan, artifacts: Sequence[Artifact | None] = (), times_ns: Sequence[int] = ()
) -> tuple[StageRow, ...]:
    """The stages of a plan with what is known about each; a shorter list leaves the rest unknown."""
    rows = []
    for i, stage in enumerate(plan.stages):
        artifact = artifacts[i] if i < len(artifacts) else None
        rows.append(
            StageRow(
                family=stage.family,
                kernel=stage.kernel.name,
                digest=stage.kernel.digest,
                time_ns=times_ns[i] if i < len(times_ns) else None,
                artifact_sha256=artifact.sha256 if artifact else None,
                cached=artifact.cached if artifact else None,
                build_ns=round(artifact.build_seconds * 1e9) if artifact else None,
                prebuilt_by=artifact.prebuilt_by if artifact else None,
            )
        )
    return tuple(rows)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where the tensors came from: the seeded fill, and the files that replace it (tensor name -> file)."""

    fill: str = "normal"
    fill_seed: int = 0
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FillNotes:
    """The parts of a comparison other than its figures."""

    fill: str | None
    distrust: str | None
    notes: tuple[str, ...]


def worst(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The fill that used most of its budget; the first of equals."""
    return max(comparisons, key=lambda c: max((check.badness for _, check in c.checks), default=0.0), default=None)


def checks_of(comparison: Comparison) -> Checks:
    """The figures of a comparison."""
    found = dict(comparison.checks)
    return {name: found.get(name) for name in OUTPUTS}


def notes_of(comparison: Comparison) -> FillNotes:
    """The notes of a comparison."""
    fill = comparison.checks[0][1].fill if comparison.checks else None
    return FillNotes(fill=fill, distrust=comparison.distrust, notes=comparison.notes)


def comparison_from(checks: Checks, words: FillNotes) -> Comparison:
    """The inverse of :func:`checks_of` and :func:`notes_of`."""
    found = tuple((name, check) for name in OUTPUTS if (check := checks[name]) is not None)
    return Comparison(checks=found, distrust=words.distrust, notes=words.notes)
