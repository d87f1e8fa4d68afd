"""``fmha plan``."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.problems import one_problem
from fmha_cli.cli.request import request_of, selection_of
from fmha_cli.domain.errors import ExitCode
from fmha_cli.report.documents.plan import plan_document


def plan(call: CliCall) -> int:
    """Exits 3 when nothing serves the problem."""
    problem = one_problem(call)
    selection = selection_of(call, problem, request_of(call))
    best = selection.best
    if best is None:
        call.output.document(plan_document(problem, None, reasons=selection.trace.reasons()))
        return int(ExitCode.UNSUPPORTED)
    backend = call.registry.backend(best.kernel.backend)
    made = backend.plan(problem, best.kernel, best.device)
    names = [backend.upstream_name(stage.kernel) for stage in made.stages]
    call.output.document(plan_document(problem, made, best.device.id if best.runnable else None, names))
    return int(ExitCode.OK)
