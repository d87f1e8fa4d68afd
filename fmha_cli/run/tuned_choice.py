"""``TunedChooser``: the kernel that was tuned for a problem, or why none is used. ``Scopes``: the scope of a tuned kernel on this machine.
A sweep's copy of the entries makes every worker and every session choose alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fmha_cli import __version__
from fmha_cli.bench.entry import RememberedChoice, Result, Scope, joined_versions, owner, place_of, source_digest
from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice, Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import CPU, Availability, usable_cores
from fmha_cli.domain.encode import SCHEMA_VERSION
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.phases import SILENT, Voice
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.protocols import BuildContext, Keyed
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.run.builds import build_context
from fmha_cli.run.origin import Host, this_host
from fmha_cli.run.request import Request
from fmha_cli.toolchain.cache.key import BuildKey


@dataclass(frozen=True, kw_only=True)
class Scopes:
    """The common part of all scopes of an invocation."""

    registry: Registry
    found: Mapping[str, Availability]
    building: BuildContext
    host: Host
    threads: int

    def of(self, problem: Problem, choices: Sequence[Choice], cache: CacheState) -> Scope:
        """The scope of a choice among kernels of one backend and device; the first names them.

        A backend that cannot tell the key of a build identifies its kernels by its version and their names.
        """
        device, backend = choices[0].device, self.registry.backend(choices[0].kernel.backend)
        version = self.found[backend.name].version if backend.name in self.found else None
        own = () if device.id == CPU else tuple(f"{name} {text}" for name, text in sorted(self.host.drivers.items()))
        keys = [key for choice in choices for key in self._keys(problem, choice)]
        return Scope(
            device=joined_versions(device.name, self.host.processor.text if device.id == CPU else None),
            units=device.units,
            driver=joined_versions(backend.name, version, *own),
            compiler=joined_versions(
                *dict.fromkeys(key.toolchain_version for key in keys if isinstance(key, BuildKey))
            ),
            source=source_digest([_content(key) for key in keys]),
            codegen=f"fmha {__version__}, encoding {SCHEMA_VERSION}",
            threads=self.threads if device.id == CPU else 0,
            cache=cache.value,
        )

    def _keys(self, problem: Problem, choice: Choice) -> list[BuildKey | str]:
        """The key of every stage's build, or its placeholder: the kernel's name, or why there is none."""
        backend = self.registry.backend(choice.kernel.backend)
        plan = backend.plan(problem, choice.kernel, choice.device)
        if not isinstance(backend, Keyed):
            return [stage.kernel.name for stage in plan.stages]
        out: list[BuildKey | str] = []
        for stage in plan.stages:
            try:
                key = backend.cache_key(stage, self.building)
            except FmhaError as fault:
                key = f"no key: {fault.what}"
            out.append(key if isinstance(key, BuildKey) else str(key))
        return out


def _content(key: BuildKey | str) -> object:
    """The key's members about the source; the compiler has its own members."""
    if isinstance(key, str):
        return key
    return [key.spec.source_sha256, list(key.flags), key.headers_digest]


EntriesOf = Callable[[str], Sequence[RememberedChoice]]
"""The entries of a family of problems (``place_of``)."""

OTHER_SCOPE, OUTSIDE, GONE = "X071", "X072", "X073"


@dataclass(frozen=True)
class Advice:
    """The answer of the entries about one problem.

    Attributes:
        entry: the one that decided, or that is nearest to it.
        choice: the kernel to choose; None if the default is to be chosen.
        reasons: why no entry is used; empty if one is.
    """

    entry: RememberedChoice
    choice: Choice | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def used(self) -> bool:
        """Whether an entry decided."""
        return not self.reasons

    @property
    def text(self) -> str:
        """One sentence."""
        entry = self.entry
        tuned = f"tuned as `{entry.flags}` on {entry.made[:10]}"
        if self.reasons:
            return f"{tuned}, not used: {'; '.join(reason.text for reason in self.reasons)}"
        if entry.result is Result.KEPT:
            return f"{tuned}: the default was kept, {entry.why}"
        gain = "" if entry.gain is None else f": the default takes {entry.gain * 100:.1f} % longer"
        ends = entry.gain_ci95
        return tuned + gain + ("" if ends is None else f" ({ends[0] * 100:.1f} to {ends[1] * 100:.1f} %)")


@dataclass(kw_only=True)
class TunedChooser:
    """Chooses among tuned kernels.

    Args:
        scopes: makes the description of this machine; called when the first entry is found.
    """

    entries_of: EntriesOf
    registry: Registry
    found: Mapping[str, Availability]
    wanted: Wanted
    scopes: Callable[[], Scopes]
    _known: dict[tuple[RememberedChoice, str], tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def _scopes(self) -> Scopes:
        return self.scopes()

    def advice(self, problem: Problem, selection: Selection, cache: CacheState) -> Advice | None:
        """The answer of the entries about a problem; None if there are none, or if the user names a kernel."""
        default, place = selection.best, place_of(problem)
        if default is None or not default.runnable or default.device.emulated or self.wanted.kernel is not None:
            return None
        every = [entry for entry in self.entries_of(place.family) if entry.scope.cache == cache.value]
        if not every:
            return None
        nearest = min(every, key=lambda entry: abs(entry.place.at - place.at))
        differing = {entry: self._differences(entry, default) for entry in every}
        usable = {entry.place.at: entry for entry in reversed(every) if not differing[entry]}  # the newest of a length
        lengths = sorted(usable)
        if not lengths:
            return _refused(nearest, OTHER_SCOPE, "; ".join(differing[nearest]))
        at = owner(lengths, place.at)
        if at is None:
            span = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
            text = f"{place.at} keys are outside of the tuned lengths ({span})"
            return _refused(min(usable.values(), key=lambda entry: abs(entry.place.at - place.at)), OUTSIDE, text)
        entry = usable[lengths[at]]
        if entry.result is Result.KEPT:
            return Advice(entry)
        try:
            choice = self._named(problem, entry.kernel, default)
        except FmhaError as fault:
            return _refused(entry, GONE, fault.what)
        return Advice(entry, choice)

    def _differences(self, entry: RememberedChoice, default: Choice) -> tuple[str, ...]:
        """The differences since then; empty if the entry counts."""
        key = (entry, default.kernel.digest)
        if key not in self._known:
            self._known[key] = self._compared(entry, default)
        return self._known[key]

    def _compared(self, entry: RememberedChoice, default: Choice) -> tuple[str, ...]:
        if entry.default != default.kernel.name:
            return ("the default is another kernel now",)
        try:
            kernel = self._named(entry.problem, entry.kernel, default)
            now = self._scopes.of(entry.problem, (kernel, default), CacheState(entry.scope.cache))
        except FmhaError as fault:
            return (fault.what,)
        return entry.scope.differences(now)

    def _named(self, problem: Problem, kernel: str, default: Choice) -> Choice:
        """The choice of a kernel on the default's device. Raises FmhaError: it is refused, or there is none of that name."""
        if kernel == default.kernel.name:
            return default
        wanted = replace(self.wanted, backend=default.kernel.backend, device=default.device.id, kernel=kernel)
        best = select(problem, self.registry, self.found, wanted).best
        assert best is not None  # a refusal is an error
        return best


def _refused(entry: RememberedChoice, id: str, text: str) -> Advice:
    return Advice(entry, reasons=(Reason(id, text, severity=Severity.CHOICE),))


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
    voice: Voice = SILENT,
) -> TunedChooser | None:
    """The chooser among tuned kernels; None if the request excludes them, or if no entry is remembered."""
    if tuned is None or not chooses(request):
        return None

    def scopes() -> Scopes:
        building = build_context(request, voice)
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
    return lambda family: read.get(family, ())
