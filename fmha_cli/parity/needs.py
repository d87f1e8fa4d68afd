"""Which kernels the upstream programs need for a set of cases: those that this tool would run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fmha_cli.device import Availability
from fmha_cli.kernel import Family
from fmha_cli.parity.case import Program
from fmha_cli.parity.mapping import Mapped
from fmha_cli.registry import Registry
from fmha_cli.select import Wanted, select

APIS: Mapping[Family, str] = {
    Family.FWD: "fwd",
    Family.FWD_SPLITKV: "fwd_splitkv",
    Family.FWD_SPLITKV_COMBINE: "fwd_splitkv",
    Family.FWD_PAGEDKV: "pagedkv_prefill",
    Family.FWD_APPENDKV: "fwd_appendkv",
    Family.BWD_DOT_DO_O: "bwd",
    Family.BWD_DQ_DK_DV: "bwd",
    Family.BWD_CONVERT_DQ: "bwd",
}
"""Family -> the name that upstream's generator has for its API (``generate.py --api``)."""

_DRAWS = "_dropout_wg16_"
_DRAWS_AND_STORES = "_dropout_wg16_storerandval_"


@dataclass(frozen=True)
class Needs:
    """What one program needs.

    Attributes:
        names: upstream's file stems of the kernels, in the order in which cases need them.
        apis: upstream's names of the APIs; the first one is always there.
        arch: the architecture; None where no case needs a kernel.
        without: cases for which this tool has no kernel.
    """

    program: Program
    names: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    arch: str | None = None
    without: int = 0


def needs_of(
    cases: Iterable[Mapped], registry: Registry, found: Mapping[str, Availability], wanted: Wanted
) -> dict[Program, Needs]:
    """The needs of both programs, for those that have cases.

    Raises:
        UsageError, EnvironmentProblem: as ``select.select``.
    """
    names: dict[Program, dict[str, None]] = {}
    apis: dict[Program, set[str]] = {}
    without: dict[Program, int] = {}
    arch: str | None = None
    for case in cases:
        if case.problem is None:
            continue
        program = case.case.program
        mine, my_apis = names.setdefault(program, {}), apis.setdefault(program, set())
        best = select(case.problem, registry, found, wanted).best
        if best is None:
            without[program] = without.get(program, 0) + 1
            continue
        backend = registry.backend(best.kernel.backend)
        arch = best.kernel.arch
        for stage in backend.plan(case.problem, best.kernel, best.device).stages:
            name = backend.upstream_name(stage.kernel)
            if name is not None:
                mine.update(dict.fromkeys(_variants(name)))
                my_apis.add(APIS[stage.family])
    return {
        program: Needs(program, tuple(mine), _with_required(program, apis[program]), arch, without.get(program, 0))
        for program, mine in names.items()
    }


def _variants(name: str) -> tuple[str, ...]:
    """A backward kernel with dropout comes in two kinds: a program that validates takes the one that stores what it
    drew (``fmha_bwd_runner.hpp``, ``s_randval``), and the other one when it is timed."""
    if _DRAWS_AND_STORES in name:
        return (name, name.replace(_DRAWS_AND_STORES, _DRAWS))
    if _DRAWS in name:
        return (name, name.replace(_DRAWS, _DRAWS_AND_STORES))
    return (name,)


def _with_required(program: Program, apis: set[str]) -> tuple[str, ...]:
    """The APIs in upstream's order. The forward program needs ``fwd`` always, and split-KV beside append."""
    if program is Program.BWD:
        return ("bwd",)
    every = ("fwd", "fwd_splitkv", "fwd_appendkv", "pagedkv_prefill")
    implied = {"fwd"} | ({"fwd_splitkv"} if "fwd_appendkv" in apis else set())
    return tuple(api for api in every if api in apis | implied)
