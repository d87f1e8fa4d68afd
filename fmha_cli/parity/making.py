"""``--build-upstream``: sources, compiler, needs, and the programs built from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fmha_cli.build.notice import as_text
from fmha_cli.build.rocm.toolchain import find_rocm
from fmha_cli.errors import EnvironmentProblem
from fmha_cli.parity.building import Linked, Progress, Workshop, build_program
from fmha_cli.parity.case import Program
from fmha_cli.parity.mapping import Mapped
from fmha_cli.parity.needs import Needs, needs_of
from fmha_cli.parity.upstream import Binaries
from fmha_cli.registry import Registry
from fmha_cli.select import wanted_backends
from fmha_cli.sources.ck import HOME_OPTION, ck_tree, pinned_tree
from fmha_cli.sources.rocm_parts import rocm_supply
from fmha_cli.walk.builds import build_context
from fmha_cli.walk.probing import probe_backends
from fmha_cli.walk.request import Request


def make_programs(
    cases: Sequence[Mapped],
    request: Request,
    registry: Registry,
    *,
    into: Path | None,
    notify: Callable[[str], None],
    progress: Progress,
) -> Binaries:
    """Both programs, as far as cases need them, for the request's architecture or that of the device here.

    Args:
        into: the folder for the programs; None = the cache.

    Raises:
        EnvironmentProblem: no sources, no compiler, no architecture, a generator that fails.
        KernelFailure: a file that does not compile.
        Interrupted: Ctrl-C.
    """
    found = probe_backends(registry, wanted_backends(registry, request.wanted), device=request.device)
    needs = needs_of(cases, registry, found, request.wanted)
    archs = {need.arch for need in needs.values() if need.arch is not None}
    if not archs:
        raise EnvironmentProblem(
            "there is nothing to build: no case has a kernel here",
            code="Y013",
            where="--build-upstream",
            help="`fmha explain` says why; or name an architecture with --arch",
        )
    shop = _workshop(request, registry, archs.pop(), notify)
    paths: dict[Program, Path] = {}
    missing: dict[Program, str] = {}
    for program in Program:
        need = needs.get(program)
        if need is None or not need.names:
            missing[program] = f"{program.binary} was not built: no case that can be compared has a kernel"
            continue
        if need.without:
            notify(f"{program.binary}: {need.without} of its cases have no kernel here, and get none")
        linked = build_program(need, shop, into, progress)
        paths[program] = linked.path
        notify(_said(need, linked))
    return Binaries(paths, missing)


def _workshop(request: Request, registry: Registry, arch: str, notify: Callable[[str], None]) -> Workshop:
    context = build_context(request, notify)
    say, home = as_text(notify), context.options.get(HOME_OPTION)
    tree = ck_tree(context.cache_root, home=home, offline=request.offline, notify=say)
    if tree.example is None:
        notify(f"the Composable Kernel of {tree.origin} lacks upstream's examples; the pinned source has them")
        tree = pinned_tree(context.cache_root, offline=request.offline, notify=say)
    supply = rocm_supply(context.cache_root, offline=request.offline, notify=say)
    toolchain = find_rocm(context.cache_root, parts=supply, notify=say)
    return Workshop(
        cache_root=context.cache_root, tree=tree, toolchain=toolchain, arch=registry.arch(arch), jobs=context.jobs
    )


def _said(need: Needs, linked: Linked) -> str:
    runtime = (
        f"linked to {linked.runtime}"
        if linked.runtime
        else "without a HIP runtime, which is not here: its HIP symbols are open, and it runs with one that is loaded "
        "before it (LD_PRELOAD=libamdhip64.so)"
    )
    return (
        f"built {linked.path} for {need.arch}: {len(need.names)} kernels of {', '.join(need.apis)}; "
        f"{linked.compiled} files compiled, {linked.kept} kept; {runtime}"
    )
