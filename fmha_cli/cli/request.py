"""The options of a command as a ``Request``, and as the ``Surroundings`` that backends check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmha_cli.cli.call import Call
from fmha_cli.cli.options import BUILDING
from fmha_cli.cli.problems import file_flags
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.features import FILLS
from fmha_cli.domain.suggest import suggest
from fmha_cli.walk.request import Command, Request

if TYPE_CHECKING:
    from fmha_cli.domain.installation import Surroundings


def request_of(call: Call, command: Command = Command.RUN) -> Request:
    """The request of a command line; options that the command does not have keep their defaults.

    Raises:
        UsageError: a malformed value.
    """
    s = call.settings
    default = Request()
    kernels = s.many("ab")
    return Request(
        command=command,
        argv=call.argv,
        backend=s.text("backend") or default.backend,
        arch=s.text("arch"),
        device=None if s.text("device") == "auto" else s.text("device"),
        kernel=s.text("kernel"),
        files=file_flags(call),
        out=s.text("out"),
        fills=_fills(call, command),
        fill_seed=s.size("fill_seed", default.fill_seed),
        check=not s.on("no_check"),
        threads=s.size("threads", default.threads),
        timeout=s.number("timeout", default.timeout),
        jobs=s.size("jobs", default.jobs),
        offline=s.on("offline"),
        dry_run=s.on("dry_run"),
        all_kernels=s.on("all_kernels"),
        cache=s.text("cache") or default.cache,
        ab=(kernels[0], kernels[1]) if len(kernels) == 2 else None,
        flops_dense=s.text("flops") == "dense",
        peak=s.text("peak") or default.peak,
        repeats=s.size("repeats", default.repeats, 1),
        budget_s=s.number("budget", default.budget_s),
        oracle_s=s.number("check_budget", default.oracle_s),
        save_failures=s.text("save_failures"),
        baseline=s.text("baseline"),
        journal=s.text("journal"),
        resume=s.text("resume"),
        cache_root=s.text("cache_dir"),
        emu_seed=s.size("emu_seed", default.emu_seed),
        emu_turn=s.size("emu_turn", default.emu_turn),
        emu_threads=s.size("emu_threads", default.emu_threads),
        emu_checks=not s.on("no_emu_checks"),
        options=own_options(call),
    )


def _fills(call: Call, command: Command) -> tuple[str, ...]:
    given = tuple(name for text in call.settings.many("fill") for name in text.split(","))
    known = (*FILLS, *call.registry.fills) if given and not set(given) <= set(FILLS) else FILLS
    for name in given:
        if name not in known:
            where = call.settings.where("fill")
            raise UsageError(f"--fill {name}: no such fill", code="E008", where=where, help=suggest(name, known))
    return given or (FILLS if command is Command.VALIDATE else FILLS[:1])


def own_options(call: Call) -> dict[str, str]:
    """The given options that belong to one backend, by flag name."""
    return {option.flag.name: text for option in BUILDING if (text := call.settings.text(option.key))}


def surroundings_of(call: Call) -> Surroundings:
    """Where backends look while they check this machine."""
    from fmha_cli.domain.installation import Surroundings

    options, notify = own_options(call), call.console.detail
    return Surroundings(cache_root=call.cache_root, environ=call.environ, options=options, notify=notify)
