"""``TunedChooser``: the kernel that was tuned for a problem, or why none is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fmha_cli.bench.entry import RememberedChoice, Result
from fmha_cli.bench.intervals import owner, place_of
from fmha_cli.bench.roofline import CacheState
from fmha_cli.discovery.registry import Registry
from fmha_cli.discovery.select import Choice, Selection, select
from fmha_cli.discovery.wanted import Wanted
from fmha_cli.domain.device import Availability
from fmha_cli.domain.errors import FmhaError
from fmha_cli.domain.problem import Problem
from fmha_cli.domain.rules import Reason, Severity
from fmha_cli.run.scopes import Scopes

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
