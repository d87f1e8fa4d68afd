"""Finding, building (``--build-upstream``) and running the upstream example programs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import select
from fmha_cli.discovery.wanted import Wanted, wanted_backends
from fmha_cli.domain.counterpart import Binaries, Counterpart, Mapped, Needs, Program, Progress, Ran
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import EnvironmentProblem
from fmha_cli.domain.kernel import Family
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.run.builds import build_context
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Request
from fmha_cli.toolchain.process import TimeLimits, run_group

_KEPT = 200_000
"""Bytes that are kept from each end of a stream, because a mismatch can print many lines."""


def find_binaries(folder: Path, names: Mapping[Program, str]) -> Binaries:
    """Find the programs in a folder or in its ``bin``.

    Args:
        names: the file name of each program.

    Raises:
        EnvironmentProblem: Y003, no such folder.
    """
    if not os.path.isdir(folder):
        what = f"--upstream-bin {folder}: no such folder"
        help = f"a folder with {' and '.join(names.values())}; or --build-upstream"
        raise EnvironmentProblem(what, code="Y003", where="--upstream-bin", help=help)
    found: dict[Program, Path] = {}
    missing: dict[Program, str] = {}
    for program, name in names.items():
        places = [folder / name, folder / "bin" / name]
        here = next((path for path in places if path.is_file()), None)
        if here is None:
            missing[program] = f"{name} is not in {folder}"
        elif not os.access(here, os.X_OK):
            missing[program] = f"{here} is not executable"
        else:
            found[program] = here.resolve()
    return Binaries(found, missing)


def run_program(path: Path, argv: tuple[str, ...], env: Mapping[str, str], timeout: float) -> Ran:
    """Run a program in a temporary folder. No process that it started is left when this returns.

    Raises:
        EnvironmentProblem: Y004, it cannot be started.
        Interrupted: Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="fmha-parity-") as folder:
        scratch, limits = Path(folder), TimeLimits(timeout)
        with (scratch / "stdout").open("w+b") as out, (scratch / "stderr").open("w+b") as err:
            try:
                ended = run_group([str(path), *argv], cwd=scratch, env=env, output=out, errors=err, limits=limits)
            except OSError as fault:
                what = f"{path} cannot be started"
                raise EnvironmentProblem(what, code="Y004", where="--upstream-bin", why=str(fault)) from fault
        said = [_text_of(scratch / name) for name in ("stdout", "stderr")]
    return Ran((str(path), *argv), ended.returncode, said[0], said[1], ended.timed_out, ended.seconds)


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if len(data) > 2 * _KEPT:
        data = data[:_KEPT] + b"\n...\n" + data[-_KEPT:]
    return data.decode("utf-8", "replace")


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
