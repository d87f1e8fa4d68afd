"""``fmha plan``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import CACHE_DIR, FILES, ROOM, ROWS
from fmha_cli.domain.errors import ExitCode


def plan(call: Call) -> int:
    """Exits 3 when nothing serves the problem."""
    from fmha_cli.cli.asked import one_problem, request_of, selection_of
    from fmha_cli.report.documents.plan import plan_document

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


COMMAND = Command(plan, options=(*ROOM, *FILES[:4], CACHE_DIR, *ROWS))
