"""``fmha run``, ``fmha validate`` and ``fmha bench``: what is refused, and where the problems come from."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.cli.settings import FLAG
from fmha_cli.discovery.builtins import revisions_in
from fmha_cli.discovery.entry_points import installed_entry_points
from fmha_cli.discovery.kernel_index import refuse_unknown
from fmha_cli.domain.errors import UsageError


def run(call: CliCall) -> int:
    """``run``: one row for every problem. ``validate``: one verdict for every (problem, kernel). ``bench``: one record for
    every (problem, kernel, cache mode)."""
    if len(call.settings.many("ab")) not in (0, 2):
        where = call.settings.where("ab")
        raise UsageError(
            f"{where}: two kernels are compared", code="E002", where=where, help="--ab K1 K2 or --ab K K@DIR"
        )
    _refuse_more_kernels(call)
    _refuse_records(call)
    if call.settings.on("watch"):  # which shows the error of an unknown kernel, and goes on
        from fmha_cli.cli.on_change import watch

        return watch(call, run_points)
    _refuse_unknown(call)
    return run_points(call)


def _refuse_unknown(call: CliCall) -> None:
    """Refuse a digest that no kernel has before the dear imports, where the index of kernels knows.

    It does not know the kernels of plugins and of other revisions of a backend's source.
    """
    kernel = call.settings.text("kernel")
    if kernel is not None and not revisions_in(call.settings.text) and not installed_entry_points():
        refuse_unknown(kernel, call.tables)


def run_points(call: CliCall) -> int:
    """Do all points of the command that was called; every row is printed, also after Ctrl-C.

    Raises:
        FmhaError: before the first row: a usage error, a missing environment.
    """
    if call.settings.on("plot"):
        from fmha_cli.pages.terminal import check_plotext  # 20 ms

        check_plotext("--plot")
    from fmha_cli.cli.problems import (
        points_of,
        workload_of,
    )  # 40 ms, which the refusal of an unknown kernel does without
    from fmha_cli.run.process import early_worker

    workload = workload_of(call)
    points = points_of(call, workload)
    if call.settings.on("dry_run"):
        from fmha_cli.cli.delivery import dry_run

        return dry_run(call, points, workload)
    with early_worker() as worker:  # the worker process starts while this one imports numpy and the rest
        from fmha_cli.cli.delivery import deliver_rows

        return deliver_rows(call, points, worker, workload)


def _refuse_more_kernels(call: CliCall) -> None:
    """Refuse options that choose kernels differently.

    Raises:
        UsageError: E002.
    """
    given = call.settings.values
    named = [
        f"--{key.replace('_', '-')}"
        for key in ("ab", "kernel", "all_kernels")
        if key in given and given[key].value is not False
    ]
    if len(named) > 1:
        what, why = f"{named[0]} and {named[1]} contradict each other", "each says which kernels run"
        raise UsageError(what, code="E002", where=named[1], why=why, help=f"leave {named[0]} or {named[1]} out")


def _refuse_records(call: CliCall) -> None:
    """Refuse options about records beside ``--invariant``, whose rows are none and are kept nowhere.

    Raises:
        UsageError: E002.
    """
    if not call.settings.on("invariant"):
        return
    for key in ("all_kernels", "save_failures", "out", "dry_run", "watch", "resume", "journal", "label", "workload"):
        value = call.settings.values.get(key)
        if value is not None and value.source == FLAG and value.value is not False:
            flag, why = f"--{key.replace('_', '-')}", "its rows are no records, and are kept nowhere"
            raise UsageError(
                f"--invariant and {flag}",
                code="E002",
                where=flag,
                why=why,
                help=f"two commands: validate --invariant, and validate {flag}",
            )
