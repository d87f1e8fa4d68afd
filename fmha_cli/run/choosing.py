"""The ``TunedChooser`` of a request, and a sweep's copy of entries, with which every worker and every session chooses alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fmha_cli.bench.entry import RememberedChoice
from fmha_cli.bench.intervals import place_of
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.device import Availability, usable_cores
from fmha_cli.domain.phases import Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.run.builds import build_context
from fmha_cli.run.host import this_host
from fmha_cli.run.request import Request
from fmha_cli.run.scopes import Scopes
from fmha_cli.run.tuned_choice import EntriesOf, TunedChooser

TUNED, DEFAULT = "tuned", "default"
"""Values of ``--select`` that name no kernel."""

Kept = Mapping[str, tuple[Mapping[str, Any], ...]]
"""Family of problems -> its entries as JSON, in the order of the store."""


def chooses(request: Request) -> bool:
    """Whether a request leaves the choice to tuned kernels."""
    return request.select == TUNED and request.kernel is None and not request.wanted.several


def chooser_of(
    request: Request,
    registry: Registry,
    found: Mapping[str, Availability],
    tuned: EntriesOf | None,
    notify: Callable[[str], None] = lambda text: None,
) -> TunedChooser | None:
    """The chooser among tuned kernels; None if the request excludes them, or if no entry is remembered."""
    if tuned is None or not chooses(request):
        return None

    def scopes() -> Scopes:
        building = build_context(request, Voice(notify))
        threads = request.threads or usable_cores()
        return Scopes(registry=registry, found=found, building=building, host=this_host(), threads=threads)

    return TunedChooser(entries_of=tuned, registry=registry, found=found, wanted=request.wanted, scopes=scopes)


def kept_of(problems: Iterable[Problem], tuned: EntriesOf | None) -> Kept:
    """The remembered entries for the families of some problems; families without an entry are left out."""
    if tuned is None:
        return {}
    families = dict.fromkeys(place_of(problem).family for problem in problems)
    found = {family: tuple(entry.to_dict() for entry in tuned(family)) for family in families}
    return {family: entries for family, entries in found.items() if entries}


def among(kept: Kept, problems: Iterable[Problem]) -> Kept:
    """The part that concerns some problems."""
    families = {place_of(problem).family for problem in problems} if kept else set()
    return {family: entries for family, entries in kept.items() if family in families}


def entries_among(kept: Kept) -> EntriesOf | None:
    """The source of the kept entries; None without entries."""
    if not kept:
        return None
    read = {family: tuple(map(RememberedChoice.from_dict, entries)) for family, entries in kept.items()}

    def entries_of(family: str) -> Sequence[RememberedChoice]:
        return read.get(family, ())

    return entries_of
