"""``fmha inspect``: one kernel, a table of many, or two side by side; and what a problem's kernels execute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fmha_cli.cli.build import WEIGHT
from fmha_cli.cli.call import CliCall
from fmha_cli.cli.commands.kernels import EXECUTING, SELECTING
from fmha_cli.cli.kernels import selected_kernels
from fmha_cli.cli.options import (
    CHOOSING,
    MODELS,
    REVISIONS,
)
from fmha_cli.cli.problems import one_problem
from fmha_cli.cli.request import chosen_plan, named_kernel, request_of
from fmha_cli.cli.settings import FLAG
from fmha_cli.domain.device import is_emulated
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.domain.protocols import BuildContext
from fmha_cli.report.documents.differences import differences_document
from fmha_cli.report.documents.executed import executed_document
from fmha_cli.report.documents.inspect import Inspection, inspect_document
from fmha_cli.report.documents.inspections import inspection_row, inspections_document
from fmha_cli.report.record import Record
from fmha_cli.run.builds import build_context, build_orders
from fmha_cli.run.request import NamedKernel, Order, context_at
from fmha_cli.run.run import Run

_KINDS = {
    ExitCode.UNSUPPORTED: UnsupportedError,
    ExitCode.ENVIRONMENT: EnvironmentProblem,
    ExitCode.FAILED: KernelFailure,
}

_SELECTION = tuple(option.key for option in SELECTING if option.key not in ("arch", "backend"))
_PLACING = {option.key for option in (*MODELS, CHOOSING[2])}
"""What chooses a kernel in addition to the flags of a problem: a model and the device."""


def inspect(call: CliCall) -> int:
    """Show what built kernels need. Kernels that are not in the cache are built."""
    if call.settings.on("executed"):
        _require_alone(call)
        return _executed(call)
    compilers = call.settings.many("compiler")
    pair = call.settings.many("diff")
    chooses = _chooses(call, pair)
    if not chooses:
        _require_one(call, pair, compilers)
    if call.settings.on("all"):
        return _all(call)
    if pair or len(compilers) == 2:
        return _side_by_side(call, pair or (call.argument("kernel") or "",) * 2, compilers or (None,))
    kernel = chosen_plan(call, one_problem(call), request_of(call))[0].kernel if chooses else named_kernel(call)
    call.output.document(_inspected(call, kernel, _built(call, kernel, _context(call, *compilers))))
    return int(ExitCode.OK)


def _chooses(call: CliCall, pair: tuple[str, ...]) -> bool:
    """Whether a problem says which kernel is meant, because nothing else does. The refusal covers what only a run
    needs.
    """
    otherwise = call.argument("kernel") or call.settings.on("all") or pair
    given = {option.key for option in EXECUTING if _given(call, option.key)}
    selection = [key for key in (*_SELECTION, "compiler") if key in call.settings.values and key != "dtype"]
    return not otherwise and bool(given & {*BY_KEY, "model"}) and given <= {*BY_KEY, *_PLACING} and not selection


def _require_alone(call: CliCall) -> None:
    """A problem is executed by the kernel that is named, or the best one. Raises UsageError: E002, an option is given
    that shows kernels as they were built."""
    revisions = [option.key for option in REVISIONS]
    keys = ("all", "diff", "compiler", "profile", "family", *revisions, "filter")
    others = [key for key in keys if _given(call, key)]
    if others:
        what = f"--executed and --{others[0].replace('_', '-')} contradict each other"
        raise UsageError(what, code="E002", where="--executed")


def _given(call: CliCall, key: str) -> bool:
    value = call.settings.values.get(key)
    return value is not None and value.source == FLAG and value.value is not False


def _require_one(call: CliCall, pair: tuple[str, ...], compilers: tuple[str, ...]) -> None:
    """One of KERNEL, --all and --diff; not more compilers than can be compared. Raises UsageError: E002."""
    asked = {"KERNEL": bool(call.argument("kernel")), "--all": call.settings.on("all"), "--diff": bool(pair)}
    named = [name for name, given in asked.items() if given]
    if not named:
        help = "KERNEL, the flags of a problem, --all, or --diff K1 K2"
        raise UsageError("no kernel is named", code="E002", where="KERNEL", help=help)
    if len(named) > 1:
        raise UsageError(f"{named[0]} and {named[1]} contradict each other", code="E002", where=named[1])
    if len(pair) not in (0, 2):
        raise UsageError("two kernels are compared", code="E002", where="--diff", help="--diff K1 K2")
    if len(compilers) > (2 if call.argument("kernel") else 1):
        text = "two compilers are compared on one kernel"
        raise UsageError(text, code="E002", where="--compiler", help="KERNEL --compiler A --compiler B")
    asked_to_run = [option.key for option in EXECUTING if _given(call, option.key)]
    if asked_to_run:
        flag = f"--{asked_to_run[0].replace('_', '-')}"
        help = "add --executed; or leave out what names kernels, and the problem's own is shown"
        raise UsageError(f"{flag} is for --executed", code="E002", where=flag, help=help)
    chosen = [key for key in _SELECTION if key in call.settings.values]
    if chosen and not call.settings.on("all"):
        what = f"--{chosen[0]} selects kernels for --all"
        raise UsageError(what, code="E002", where=f"--{chosen[0]}", help="add --all")


def _all(call: CliCall) -> int:

    kernels = list({kernel.digest: kernel for kernel in selected_kernels(call)}.values())
    context = _context(call, *call.settings.many("compiler"))
    with call.console.progress("build") as progress:
        built = build_orders(
            [Order(Stage(kernel)) for kernel in kernels],
            call.registry,
            replace(context, phase=progress.phase),
            progress,
        )
    rows, worst = [], ExitCode.OK
    for kernel in kernels:
        outcome: Inspection | FmhaError
        done = built[kernel.digest]
        try:
            if done.value is None:
                raise done.error or AssertionError("an outcome holds a value or an error")
            outcome = _inspected(call, kernel, done.value)
        except FmhaError as error:
            outcome = error
            worst = max(worst, error.exit_code, key=WEIGHT.index)
        rows.append(inspection_row(kernel, call.registry.backend(kernel.backend).upstream_name(kernel), outcome))
    call.output.document(inspections_document(rows))
    return int(worst)


def _side_by_side(call: CliCall, names: Sequence[str], compilers: tuple[str | None, ...]) -> int:

    contexts = [_context(call, *filter(None, [compilers[0]])), _context(call, *filter(None, [compilers[-1]]))]
    found = []
    for side, context in zip((NamedKernel.parse(text, "--diff") for text in names), contexts, strict=True):
        kernel = named_kernel(call, side.kernel)
        here = context_at(call.registry, context, kernel.backend, side.home, "--diff")
        found.append(_inspected(call, kernel, _built(call, kernel, here)))
    call.output.document(differences_document(*found))
    return int(ExitCode.OK)


def _executed(call: CliCall) -> int:
    """Run the problem once, as ``fmha run`` does, and print its counts next to what it needs.

    Raises:
        UsageError: Z005, no emulated device is named. UnsupportedError, EnvironmentProblem, KernelFailure: Z006,
            nothing was executed.
    """
    problem = one_problem(call)
    request = replace(request_of(call), kernel=call.argument("kernel"))
    if not is_emulated(request.device):
        what = "--executed: only an emulated device counts what it executes"
        help = "--device emu:ARCH; `fmha devices` lists the ones that are installed"
        raise UsageError(what, code="Z005", where="--device", help=help)
    with call.console.progress("run") as progress:
        progress(0, 1, problem.repro())
        (record,) = Run((problem,), request, call.registry, voice=call.console.voice(progress)).records()
    if not record.executed:
        raise _nothing(record)
    call.output.document(executed_document(problem, record))
    return int(record.verdict.exit_code)


def _nothing(record: Record) -> FmhaError:
    kind = _KINDS.get(record.verdict.exit_code, KernelFailure)
    reasons = [f"{reason.id} {reason.text}" for reason in record.reasons]
    why = "; ".join((*reasons, *record.notes)) or None
    return kind(f"nothing was executed: {record.verdict.value}", code="Z006", why=why, help=record.repro)


def _context(call: CliCall, compiler: str | None = None) -> BuildContext:

    context = build_context(request_of(call), Voice(call.console.say))
    return context if compiler is None else replace(context, options={**context.options, "compiler": compiler})


def _built(call: CliCall, kernel: KernelSpec, context: BuildContext) -> Artifact:

    return call.registry.backend(kernel.backend).build(Stage(kernel), context)


def _inspected(call: CliCall, kernel: KernelSpec, artifact: Artifact) -> Inspection:

    backend = call.registry.backend(kernel.backend)
    return inspect_document(kernel, backend.inspect(kernel, artifact), artifact, backend.upstream_name(kernel))
