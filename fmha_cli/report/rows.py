"""The parts of a record that have no noun of their own in the domain, each with its JSON form and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from fmha_cli.kernel import KernelSpec
from fmha_cli.plan import Artifact, Plan
from fmha_cli.verdict import Check, Comparison

OUTPUTS = ("o", "lse", "dq", "dk", "dv", "dbias")
"""The outputs that can be checked, in the order in which they are shown."""


@dataclass(frozen=True, kw_only=True)
class KernelRow:
    """A kernel as a record shows it: readable without the backend that made it.

    Attributes:
        name, digest: canonical; signature, algorithm: all fields as plain values.
        upstream_name: the kernel's name in its own project, None where there is none.
    """

    name: str
    digest: str
    family: str
    signature: Mapping[str, Any]
    algorithm: Mapping[str, Any]
    upstream_name: str | None = None

    @staticmethod
    def of(kernel: KernelSpec, upstream_name: str | None = None) -> KernelRow:
        """The row of a kernel."""
        data = kernel.to_dict()
        return KernelRow(
            name=kernel.name,
            digest=kernel.digest,
            family=kernel.family.value,
            signature=data["signature"],
            algorithm=data["algorithm"],
            upstream_name=upstream_name,
        )

    def to_dict(self) -> dict[str, Any]:
        """The ``kernel`` member of a record."""
        return plain_fields(self)


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """One stage of the plan: its kernel's name, the median time of the stage, and the artifact that ran.

    Attributes:
        time_ns: None where nothing was timed.
        artifact_sha256, cached, build_ns: None where nothing was built; ``build_ns`` is what building took then,
            if ``cached``.
    """

    family: str
    kernel: str
    digest: str
    time_ns: int | None = None
    artifact_sha256: str | None = None
    cached: bool | None = None
    build_ns: int | None = None
    prebuilt_by: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """One member of ``stages``."""
        return plain_fields(self)


def stage_rows(
    plan: Plan, artifacts: Sequence[Artifact | None] = (), times_ns: Sequence[int] = ()
) -> tuple[StageRow, ...]:
    """The stages of a plan with what is known of each; shorter lists leave the rest unknown."""
    rows = []
    for i, stage in enumerate(plan.stages):
        artifact = artifacts[i] if i < len(artifacts) else None
        rows.append(
            StageRow(
                family=stage.family.value,
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

    def to_dict(self) -> dict[str, Any]:
        """The ``inputs`` member of a record."""
        return plain_fields(self)


def plain_fields(noun: Any) -> dict[str, Any]:
    """The fields of a flat dataclass by name; mappings are copied, tuples become lists."""
    out = {}
    for item in fields(noun):
        value = getattr(noun, item.name)
        out[item.name] = (
            dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        )
    return out


def worst(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The fill that used most of its budget; among equals the first."""
    return max(comparisons, key=lambda c: max((check.badness for _, check in c.checks), default=0.0), default=None)


def comparison_dict(comparison: Comparison) -> dict[str, Any]:
    """``checks``, and one member of ``fills``: output -> check, null for an output that was not checked."""
    checks = dict(comparison.checks)
    return {name: plain_fields(checks[name]) if name in checks else None for name in OUTPUTS}


def comparison_notes(comparison: Comparison) -> dict[str, Any]:
    """One member of ``fill_notes``: what a comparison says beside its figures."""
    fills = [check.fill for _, check in comparison.checks]
    return {
        "distrust": comparison.distrust,
        "fill": fills[0] if fills else None,
        "notes": list(comparison.notes),
    }


def comparison_from(checks: Mapping[str, Any], notes: Mapping[str, Any]) -> Comparison:
    """The inverse of :func:`comparison_dict` and :func:`comparison_notes`."""
    found = tuple((name, Check(**checks[name])) for name in OUTPUTS if checks[name] is not None)
    return Comparison(checks=found, distrust=notes["distrust"], notes=tuple(notes["notes"]))
