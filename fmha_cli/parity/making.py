"""``--build-upstream``: build the upstream programs with the kernels that this tool would run for a set of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.domain.counterpart import Binaries, Counterpart, Mapped, Needs, Program, Progress
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.run.builds import build_context
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request


def make_programs(
    cases: Sequence[Mapped],
    upstream: Counterpart,
    request: Request,
    registry: Registry,
    *,
    into: Path | None,
    progress: Progress,
    voice: Voice = SILENT,
) -> Binaries:
    """Build each program that a case needs, for the request's architecture or that of this machine's device.

    Args:
        into: the folder for the programs; None keeps them in the cache.

    Raises:
        EnvironmentProblem: there are no sources, no compiler or no architecture, or the generator fails.
        KernelFailure: a file does not compile.
        Interrupted: Ctrl-C.
    """
    found = probe_backends(registry, wanted_backends(registry, request.wanted), device=request.device)
    needs = needs_of(cases, registry, found, request.wanted)
    archs = {need.arch for need in needs.values() if need.arch is not None}
    if not archs:
        help = "`fmha explain` shows why; or name an architecture with --arch"
        what = "there is nothing to build: no case has a kernel here"
        raise EnvironmentProblem(what, code="Y013", where="--build-upstream", help=help)
    return upstream.make(needs, registry.arch(archs.pop()), build_context(request, voice), into, progress)


def needs_of(
    cases: Iterable[Mapped], registry: Registry, found: Mapping[str, Availability], wanted: Wanted
) -> dict[Program, Needs]:
    """The kernels that each program needs. A program without a case is left out.

    Raises:
        UsageError, EnvironmentProblem: as ``select.select``.
    """
    kernels: dict[Program, dict[tuple[str, Family], None]] = {}
    without: dict[Program, int] = {}
    arch: str | None = None
    for case in cases:
        if case.problem is None:
            continue
        program = case.case.program
        mine = kernels.setdefault(program, {})
        best = select(case.problem, registry, found, wanted).best
        if best is None:
            without[program] = without.get(program, 0) + 1
            continue
        backend = registry.backend(best.kernel.backend)
        arch = best.kernel.arch
        for stage in backend.plan(case.problem, best.kernel, best.device).stages:
            name = backend.upstream_name(stage.kernel)
            if name is not None:
                mine[name, stage.family] = None
    return {program: Needs(program, tuple(mine), arch, without.get(program, 0)) for program, mine in kernels.items()}
