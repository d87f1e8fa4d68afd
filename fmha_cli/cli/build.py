"""``fmha build``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.console import Console
from fmha_cli.cli.kernels import refuser, selected_kernels
from fmha_cli.cli.problems import problems_of
from fmha_cli.cli.request import chosen_plan, named_kernel, request_of
from fmha_cli.domain.errors import EnvironmentProblem, ExitCode, FmhaError, KernelFailure, UnsupportedError, UsageError
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.plan import Artifact, Stage
from fmha_cli.report.documents.build import build_document, build_entry
from fmha_cli.report.documents.kernels import kernel_entry, kernels_document
from fmha_cli.run.builds import KernelOutcome, build_context, build_orders
from fmha_cli.run.request import Order

SETS = ("profile", "filter", "family")


def build(call: CliCall) -> int:
    """With problem flags, the plan of that problem; with --profile or --filter, the set; with --kernel alone, that kernel."""
    stages = _stages(call)
    registry, request = call.registry, request_of(call)
    named = {s.kernel.digest: registry.backend(s.kernel.backend).upstream_name(s.kernel) for s in stages}
    if request.dry_run:
        reasons = refuser(call)
        listed = (kernel_entry(s.kernel, named[s.kernel.digest], reasons(s.kernel)) for s in stages)
        call.output.document(kernels_document(request.arch, listed))
        return int(ExitCode.OK)
    with call.console.progress("build") as progress:
        context = replace(build_context(request, Voice(call.console.say, progress.phase)), timeout=request.timeout)
        built = build_orders(map(Order, stages), registry, context, progress, _Teller(call.console, len(stages)))
    outcomes = [_outcome(built[stage.kernel.digest]) for stage in stages]
    entries = [
        build_entry(stage.kernel, outcome, named[stage.kernel.digest])
        for stage, outcome in zip(stages, outcomes, strict=True)
    ]
    call.output.document(build_document(entries))
    errors = [outcome for outcome in outcomes if isinstance(outcome, FmhaError)]
    _sum_up(call.console, stages, outcomes)
    return int(max((error.exit_code for error in errors), key=WEIGHT.index, default=ExitCode.OK))


WEIGHT = (
    ExitCode.OK,
    ExitCode.UNSUPPORTED,
    ExitCode.ENVIRONMENT,
    ExitCode.FAILED,
    ExitCode.INTERNAL,
    ExitCode.INTERRUPTED,
)
"""Exit codes that a build may end with, the heaviest last (contract, section 6)."""


def _outcome(built: KernelOutcome) -> Artifact | FmhaError:
    found = built.error or built.value
    assert found is not None  # an outcome holds a value or an error
    return found


class _Teller:
    """Reports the outcome for each kernel of a set on stderr. Kernels from the cache are counted silently."""

    def __init__(self, console: Console, total: int) -> None:
        self.console = console
        self.total = total
        self.done = 0

    def __call__(self, built: KernelOutcome) -> None:
        self.done += 1
        if self.total == 1 or isinstance(built.error, EnvironmentProblem | UnsupportedError):
            return  # the summary groups them
        place = f"[{self.done}/{self.total}]"
        if built.error is not None:
            self.console.say(f"{place} failed: {built.name}: {built.error.what}")
        elif built.value is not None and not built.value.cached:
            self.console.say(f"{place} compiled in {built.value.build_seconds:.1f} s: {built.name}")


def _sum_up(console: Console, stages: Sequence[Stage], outcomes: Sequence[Artifact | FmhaError]) -> None:
    """Repeat the failures at the end, where readers look: the first error line of each, and its log."""
    failed = [(stage, error) for stage, error in zip(stages, outcomes, strict=True) if isinstance(error, KernelFailure)]
    if not failed or len(stages) == 1:
        return
    console.warn(f"{len(failed)} of {len(stages)} kernels did not compile:")
    for stage, error in failed:
        console.error(f"  {stage.kernel.digest[:8]} {stage.kernel.name}")
        console.error(f"    {error.what.partition(' [log: ')[0]}")
        console.error(f"    log: {error.where}")


def _stages(call: CliCall) -> list[Stage]:
    """The stages to build, each kernel once. Raises UsageError: problem flags and a set at the same time."""
    sets = [name for name in SETS if name in call.settings.values]
    flags = [key for key in call.problem_flags if key != "dtype"]
    if sets and flags:
        why = "problem flags build the plan of a problem, --profile and --filter a set of kernels"
        raise UsageError(f"--{sets[0]} and --{flags[0].replace('_', '-')} contradict each other", code="E013", why=why)
    if sets:
        return [Stage(kernel) for kernel in selected_kernels(call)]
    if not call.problem_flags and (name := call.settings.text("kernel")):
        return [Stage(named_kernel(call, name))]
    plans = [chosen_plan(call, problem, request_of(call))[1] for problem in problems_of(call)]
    return list({stage.kernel.digest: stage for plan in plans for stage in plan.stages}.values())
