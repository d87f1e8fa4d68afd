"""``fmha inspect --executed``: what the kernels of one problem execute on an emulated device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.device import is_emulated
from fmha_cli.errors import EnvironmentProblem, ExitCode, FmhaError, KernelFailure, UnsupportedError, UsageError

if TYPE_CHECKING:
    from fmha_cli.report.record import Record
    from fmha_cli.walk.request import Request

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
    from fmha_cli.report.executed import executed_document
    from fmha_cli.walk.run import run_points

    problem = one_problem(call)
    request = replace(request_of(call), kernel=call.argument("kernel"))
    _require_device(request)
    with call.voice.progress("run") as progress:
        outcome = run_points((problem,), request, call.registry, notify=call.voice.say, progress=progress)
    (record,) = outcome.records
    if outcome.interrupted:
        raise KeyboardInterrupt
    if not record.executed:
        raise _nothing(record)
    call.output.document(executed_document(problem, record))
    return int(record.verdict.exit_code)


def _require_device(request: Request) -> None:
    if not is_emulated(request.device):
        raise UsageError(
            "--executed: only an emulated device counts what it executes",
            code="Z005",
            where="--device",
            help="--device emu:gfx942; `fmha devices` lists those that are installed",
        )


def _nothing(record: Record) -> FmhaError:
    kind = _KINDS.get(record.verdict.exit_code, KernelFailure)
    reasons = [f"{reason.id} {reason.text}" for reason in record.reasons]
    why = "; ".join((*reasons, *record.notes)) or None
    return kind(f"nothing was executed: {record.verdict.value}", code="Z006", why=why, help=record.repro)
