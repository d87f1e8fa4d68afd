"""Dry runs: the launches of every row whose backend can show them; nothing runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.errors import EnvironmentProblem, FmhaError
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.plan import Artifact
from fmha_cli.domain.protocols import BuildContext, DryRun
from fmha_cli.domain.verdict import Verdict
from fmha_cli.run.builds import KernelOutcome, artifacts_of, build_context, build_orders
from fmha_cli.run.job import WorkerJob
from fmha_cli.run.layout import layout_of
from fmha_cli.run.records import Outcome
from fmha_cli.run.request import Request
from fmha_cli.run.rows import Row
from fmha_cli.run.supervisor import Supervisor

_NOTE = "dry run"


def dry_outcomes(
    rows: Sequence[Row], request: Request, registry: Registry, voice: Voice = SILENT
) -> tuple[list[Outcome], EnvironmentProblem | None]:
    """One Outcome for every row, and the error if this machine cannot build the host code of the launches (else None).

    Kernels are built only for backends that can show their launches.

    Raises:
        EnvironmentProblem: an unsafe cache root.
    """
    shown = [row for row in rows if _shows(row, registry)]
    if not shown:
        return [_plain(row) for row in rows], None
    context = build_context(request, voice)
    built = build_orders([order for row in shown for order in row.orders], registry, context)
    missing = next((o.error for o in built.values() if isinstance(o.error, EnvironmentProblem)), None)
    with Supervisor() as supervisor:
        watcher = _Watcher(registry, context, supervisor)
        outcomes = [watcher.outcome(row, built) if row in shown else _plain(row) for row in rows]
    return outcomes, missing or watcher.missing


def _shows(row: Row, registry: Registry) -> bool:
    return row.choice is not None and isinstance(registry.backend(row.choice.kernel.backend), DryRun)


def _plain(row: Row) -> Outcome:
    verdict = Verdict.NOT_RUN if row.choice else row.unserved
    return Outcome(verdict=verdict, notes=(_NOTE,) if row.choice else ())


class _Watcher:
    def __init__(self, registry: Registry, context: BuildContext, supervisor: Supervisor) -> None:
        self._registry, self._context, self._supervisor = registry, context, supervisor
        self._recorders: dict[str, Artifact | None] = {}
        self.missing: EnvironmentProblem | None = None

    def outcome(self, row: Row, built: Mapping[str, KernelOutcome]) -> Outcome:
        """The launches of a row, or why they cannot be shown."""
        assert row.choice is not None
        assert row.plan is not None
        artifacts = artifacts_of(row, built)
        if isinstance(artifacts, Outcome):
            return artifacts
        try:
            job = WorkerJob(
                entry=self._registry.entry_point(row.plan.main.backend),
                device=row.choice.device,
                plan=row.plan,
                artifacts=artifacts,
            )
            layout = layout_of(row.problem, row.plan.workspaces)
            launches = self._supervisor.describe(job, layout, self._recorder(row.plan.main.backend))
        except FmhaError as fault:
            if isinstance(fault, EnvironmentProblem):
                self.missing = self.missing or fault
            verdict = Verdict.NOT_RUN if isinstance(fault, EnvironmentProblem) else Verdict.LAUNCH_FAILED
            return Outcome(verdict=verdict, artifacts=artifacts, notes=(_NOTE, fault.render()))
        return Outcome(verdict=Verdict.NOT_RUN, artifacts=artifacts, launches=launches, notes=(_NOTE,))

    def _recorder(self, name: str) -> Artifact | None:
        backend = self._registry.backend(name)
        assert isinstance(backend, DryRun)
        if name not in self._recorders:
            self._recorders[name] = backend.build_recorder(self._context)
        return self._recorders[name]
