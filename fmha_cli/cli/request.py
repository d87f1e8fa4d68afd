"""The content of a command line besides its problems: its ``Request``, and the kernels that serve it."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.options import BUILDING, REVISIONS
from fmha_cli.cli.problems import file_flags
from fmha_cli.cli.settings import FLAG
from fmha_cli.discovery.builtins import lonely_option
from fmha_cli.discovery.finding import find_kernel
from fmha_cli.discovery.select import Choice, Selection, select
from fmha_cli.discovery.wanted import Wanted, named_backends, wanted_backends
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import FmhaError, UnsupportedError, UsageError
from fmha_cli.domain.features import CLOSED_FILLS, FILLS, Arithmetic
from fmha_cli.domain.installation import Sourced, SourceTree, Surroundings
from fmha_cli.domain.invariance import parse_required
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.suggest import NameKind, suggest
from fmha_cli.report.lines import folded
from fmha_cli.run.probing import probe_backends
from fmha_cli.run.request import Command, Request

_SIZES = ("fill_seed", "threads", "jobs", "emu_seed", "emu_turn", "emu_threads")
_TEXTS = (
    "backend",
    "arch",
    "kernel",
    "out",
    "cache",
    "peak",
    "save_failures",
    "baseline",
    "journal",
    "resume",
    "label",
)
_SWITCHES = ("offline", "dry_run", "all_kernels")
"""Members of a ``Request`` that have the names of their options."""


def request_of(call: CliCall, command: Command = Command.RUN) -> Request:
    """The request of a command line; options that the command does not have keep their defaults.

    Raises:
        UsageError: a malformed value.
    """
    s, default = call.settings, Request()
    if call.output.path is not None:
        from fmha_cli.run.refusals import refuse_inputs, refuse_shared  # numpy: 70 ms

        refuse_inputs((call.output.path,), "-o", file_flags(call))
        others = {f"--{key}": s.text(key) for key in ("resume", "journal", "out")}
        refuse_shared({**others, "-o": str(call.output.path)})
    if s.text("resume") and s.text("journal"):
        why = "a journal that is resumed goes on in its own file"
        raise UsageError("--resume and --journal contradict each other", code="E002", where="--journal", why=why)
    kernels = s.many("ab")
    select, named = _selecting(call)
    same: dict[str, Any] = {name: s.text(name) or getattr(default, name) for name in _TEXTS}
    same |= {name: s.size(name, getattr(default, name)) for name in _SIZES}
    same |= {name: s.on(name) for name in _SWITCHES}
    same |= {} if named is None else {"kernel": named}
    return Request(
        command=command,
        argv=call.argv,
        select=select,
        require=parse_required(s.text("require") or "", s.where("require")),
        device=None if s.text("device") == "auto" else s.text("device"),
        files=file_flags(call),
        fills=_fills(call, command),
        check=not s.on("no_check"),
        probe=not s.on("no_probe"),
        timeout=s.number("timeout", default.timeout),
        ab=(kernels[0], kernels[1]) if len(kernels) == 2 else None,
        flops_dense=s.text("flops") == "dense",
        repeats=s.size("repeats", default.repeats, 1),
        budget_s=s.number("budget", default.budget_s),
        max_time_s=s.number("max_time", default.max_time_s),
        processes=s.size("processes", default.processes, 1),
        oracle_s=_check_budget(call, default.oracle_s),
        cache_root=s.text("cache_dir"),
        emu_checks=not s.on("no_emu_checks"),
        emu_careful=s.on("emu_careful"),
        emu_arith=Arithmetic(s.text("emu_arith") or default.emu_arith),
        options=own_options(call),
        **same,
    )


def _check_budget(call: CliCall, default: float) -> float:
    if call.settings.text("check_budget") == "all":
        return inf
    try:
        return call.settings.number("check_budget", default)
    except FmhaError as error:
        raise UsageError(error.what, code="E002", where=error.where, help="seconds above 0, or all") from error


def _fills(call: CliCall, command: Command) -> tuple[str, ...]:
    given = tuple(name for text in call.settings.many("fill") for name in text.split(","))
    own = (*FILLS, *CLOSED_FILLS)
    known = own if set(given) <= set(own) else (*own, *call.registry.fills)
    for name in given:
        if name not in known:
            where = call.settings.where("fill")
            raise UsageError(
                f"--fill {name}: no such fill", code="E008", where=where, help=suggest(name, known, NameKind.FILL)
            )
    return given or (FILLS if command is Command.VALIDATE else FILLS[:1])


def _selecting(call: CliCall) -> tuple[str, str | None]:
    """What ``--select`` says: ``tuned`` or ``default``, and the kernel that it names.

    Raises:
        UsageError: E002, it and ``--kernel`` name kernels.
    """
    text = call.settings.text("select")
    if text is None:
        return Request().select, None
    from fmha_cli.run.tuned_choice import DEFAULT, TUNED  # numpy: 100 ms

    if text in (TUNED, DEFAULT):
        return text, None
    if call.settings.text("kernel") is not None:
        where = call.settings.where("select")
        raise UsageError(f"{where} {text} and --kernel each name a kernel", code="E002", where=where)
    return DEFAULT, text


def own_options(call: CliCall) -> dict[str, str]:
    """The given options that belong to one backend, by flag name.

    Raises:
        UsageError: E002, the command line says how a tree is built and names none. A variable may.
    """
    given = {option.name: text for option in (*BUILDING, *REVISIONS) if (text := call.settings.text(option.key))}
    told = {name for name in given if call.settings.values[name.replace("-", "_")].source == FLAG}
    sides = any("@" in text for key in ("ab", "diff") for text in call.settings.many(key))
    if (lonely := lonely_option(told)) and lonely[1].name not in given and not sides:
        what = f"--{lonely[0].name} without a tree"
        help = f"--{lonely[1].name} {lonely[1].metavar} names it"
        raise UsageError(what, code="E002", where=f"--{lonely[0].name}", help=help)
    return given


def surroundings_of(call: CliCall) -> Surroundings:
    """The places where backends look while they check this machine."""
    options, notify = own_options(call), call.console.detail
    return Surroundings(cache_root=call.cache_root, environ=call.environ, options=options, notify=notify)


def trees_of(call: CliCall, *, named: bool = False) -> dict[str, SourceTree]:
    """The tree of sources that each backend would build against; with ``named``, of those backends alone for which the user
    names one."""
    here = surroundings_of(call)
    return {
        name: backend.source_tree(here)
        for name, backend in call.registry.backends.items()
        if isinstance(backend, Sourced) and backend.home_option and (not named or backend.home_option in here.options)
    }


def found_by(call: CliCall, wanted: Wanted) -> Mapping[str, Availability]:
    """The availability of every wanted backend on this machine."""
    return probe_backends(call.registry, wanted_backends(call.registry, wanted), device=wanted.device)


def one_backend(call: CliCall, wanted: Wanted) -> None:
    """For a command that chooses one kernel. Raises UsageError: E002, backends to compare."""
    if wanted.several:
        what = f"fmha {call.command} takes one backend, not {wanted.backend}"
        help = "one name, or auto; run, validate and bench compare several, explain ranks them"
        raise UsageError(what, code="E002", where="--backend", help=help)


def selection_of(call: CliCall, problem: Problem, request: Request) -> Selection:
    """All decisions about one problem.

    Raises:
        UsageError: as ``one_backend``.
    """
    one_backend(call, request.wanted)
    return select(problem, call.registry, found_by(call, request.wanted), request.wanted)


def chosen_plan(call: CliCall, problem: Problem, request: Request) -> tuple[Choice, Plan]:
    """The plan that ``run`` would execute.

    Raises:
        UnsupportedError: nothing serves the problem; names the nearest reasons.
        UsageError: as ``one_backend``.
    """
    selection = selection_of(call, problem, request)
    best = selection.best
    if best is None:
        reasons = selection.trace.reasons()
        what = "no kernel serves this problem"
        why = "; ".join(f"{r.id} {r.text}" for r in folded(reasons)) or None
        help = next((r.hint for r in reasons if r.hint), None)
        raise UnsupportedError(what, code=reasons[0].id if reasons else "K000", why=why, help=help)
    backend = call.registry.backend(best.kernel.backend)
    return best, backend.plan(problem, best.kernel, best.device)


def named_kernel(call: CliCall, text: str | None = None) -> KernelSpec:
    """The kernel that ``text`` names (by default the argument ``kernel``), among all backends and ``--arch``.

    Raises:
        UsageError: unknown or ambiguous; no such architecture or backend.
    """
    registry, arch = call.registry, call.settings.text("arch")
    backends = named_backends(registry, call.settings.text("backend"))
    archs = [a for b in backends for a in b.archs()] if arch is None else [registry.arch(arch).name]
    kernel = find_kernel(registry, backends, text or call.argument("kernel"), dict.fromkeys(archs))
    assert kernel is not None  # the argument is required, and an unknown one is a usage error
    return kernel
