"""``fmha build``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.kernels import FAMILY, SELECTING, selected_kernels
from fmha_cli.cli.options import CACHE_DIR, DRY_RUN, FILTER, JOBS, OFFLINE, PROFILE, ROOM, ROWS, TIMEOUT
from fmha_cli.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from fmha_cli.plan import Stage

SETS = ("profile", "filter", "family")


def build(call: Call) -> int:
    """With problem flags, the plan of that problem; with --profile or --filter, the set."""
    from fmha_cli.cli.request import request_of
    from fmha_cli.report.document import kernel_entry, kernels_document
    from fmha_cli.report.tools import build_document, build_entry
    from fmha_cli.walk.builds import build_context, build_stages

    stages = _stages(call)
    registry, request = call.registry, request_of(call)
    named = {s.kernel.digest: registry.backend(s.kernel.backend).upstream_name(s.kernel) for s in stages}
    if request.dry_run:
        entries = [kernel_entry(stage.kernel, named[stage.kernel.digest]) for stage in stages]
        call.output.document(kernels_document(request.arch, entries))
        return int(ExitCode.OK)
    with call.voice.progress("build") as progress:
        built = build_stages(stages, registry, build_context(request, call.voice.say), progress)
    entries = []
    worst = ExitCode.OK
    for stage in stages:
        outcome = built[stage.kernel.digest]
        error = outcome.error
        if error is not None and worst is not ExitCode.FAILED:
            worst = error.exit_code
        value = error if error is not None else outcome.value
        assert value is not None  # an outcome holds a value or an error
        entries.append(build_entry(stage.kernel, value, named[stage.kernel.digest]))
    call.output.document(build_document(entries))
    return int(worst)


def _stages(call: Call) -> list[Stage]:
    """What is to be built, each kernel once.

    Raises:
        UsageError: problem flags and a set at the same time.
    """
    from fmha_cli.cli.choosing import chosen_plan
    from fmha_cli.cli.problems import problems_of
    from fmha_cli.cli.request import request_of
    from fmha_cli.plan import Stage

    sets = [name for name in SETS if name in call.settings.values]
    flags = [key for key in call.problem_flags if key != "dtype"]
    if sets and flags:
        raise UsageError(
            f"--{sets[0]} and --{flags[0].replace('_', '-')} contradict each other",
            code="E013",
            why="problem flags build the plan of a problem, --profile and --filter a set of kernels",
        )
    if sets:
        return [Stage(kernel) for kernel in selected_kernels(call)]
    plans = [chosen_plan(call, problem, request_of(call))[1] for problem in problems_of(call)]
    return list({stage.kernel.digest: stage for plan in plans for stage in plan.stages}.values())


COMMAND = Command(
    build,
    options=(*ROOM, FAMILY, PROFILE, FILTER, JOBS, TIMEOUT, OFFLINE, DRY_RUN, CACHE_DIR, *ROWS),
    detail="With problem flags, the kernels of that problem's plan; with --profile, --filter or --family, the set.",
)
assert {option.key for option in SELECTING} <= {option.key for option in COMMAND.options}
