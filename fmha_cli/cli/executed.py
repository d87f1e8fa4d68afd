"""``fmha inspect --executed``: what the kernels of one problem execute on an emulated device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, FmhaError, KernelFailure, UnsupportedError, UsageError

if TYPE_CHECKING:
    from fmha_cli.report.record import Record

_KINDS = {
    ExitCode.UNSUPPORTED: UnsupportedError,
    ExitCode.ENVIRONMENT: EnvironmentProblem,
    ExitCode.FAILED: KernelFailure,
}


def executed(call: Call) -> int:
    """Run the problem once, as ``fmha run`` does, and print its counts beside what it needs.

    Raises:
        UsageError: Z005, no emulated device is named. UnsupportedError, EnvironmentProblem, KernelFailure: Z006,
            nothing was executed.
    """
    from fmha_cli.cli.problems import one_problem
    from fmha_cli.cli.request import request_of
    from fmha_cli.report.documents.executed import executed_document
    from fmha_cli.walk.run import run_points

    problem = one_problem(call)
    request = replace(request_of(call), kernel=call.argument("kernel"))
    if not is_emulated(request.device):
        what = "--executed: only an emulated device counts what it executes"
        help = "--device emu:ARCH; `fmha devices` lists those that are installed"
        raise UsageError(what, code="Z005", where="--device", help=help)
    with call.console.progress("run") as progress:
        outcome = run_points((problem,), request, call.registry, notify=call.console.say, progress=progress)
    (record,) = outcome.records
    if outcome.interrupted:
        raise KeyboardInterrupt
    if not record.executed:
        raise _nothing(record)
    call.output.document(executed_document(problem, record))
    return int(record.verdict.exit_code)


def _nothing(record: Record) -> FmhaError:
    kind = _KINDS.get(record.verdict.exit_code, KernelFailure)
    reasons = [f"{reason.id} {reason.text}" for reason in record.reasons]
    why = "; ".join((*reasons, *record.notes)) or None
    return kind(f"nothing was executed: {record.verdict.value}", code="Z006", why=why, help=record.repro)
