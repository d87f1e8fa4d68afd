"""Probing and selecting, for the commands that look at one problem: explain, plan, build, inspect, devices."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.cli.call import Call
from fmha_cli.discovery.select import Choice, Selection, Wanted, select, wanted_backends
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import UnsupportedError
from fmha_cli.domain.plan import Plan
from fmha_cli.domain.problem import Problem
from fmha_cli.walk.request import Request


def found_by(call: Call, wanted: Wanted) -> Mapping[str, Availability]:
    """What every wanted backend finds here."""
    from fmha_cli.walk.probing import probe_backends

    return probe_backends(call.registry, wanted_backends(call.registry, wanted), device=wanted.device)


def selection_of(call: Call, problem: Problem, request: Request) -> Selection:
    """All decisions about one problem."""
    return select(problem, call.registry, found_by(call, request.wanted), request.wanted)


def chosen_plan(call: Call, problem: Problem, request: Request) -> tuple[Choice, Plan]:
    """The plan that ``run`` would carry out.

    Raises:
        UnsupportedError: nothing serves the problem; names the nearest reasons.
    """
    selection = selection_of(call, problem, request)
    best = selection.best
    if best is None:
        reasons = selection.trace.reasons()
        what = "no kernel serves this problem"
        why = "; ".join(f"{r.id} {r.text}" for r in reasons) or None
        help = next((r.hint for r in reasons if r.hint), None)
        raise UnsupportedError(what, code=reasons[0].id if reasons else "K000", why=why, help=help)
    backend = call.registry.backend(best.kernel.backend)
    return best, backend.plan(problem, best.kernel, best.device)
