"""``Supported | Unsupported``: the answer for one candidate kernel, and the ``Trace`` of all answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Severity

KNOWN = "; KNOWN: "
"""In a note, in front of each thing that is known to be wrong with the kernel; the text before the first one orders it.
"""


@dataclass(frozen=True)
class Supported:
    """A kernel that serves the problem. Smaller ``rank`` is better; ``note`` gives the reason for the rank.

    A rank orders kernels of one backend.

    Attributes:
        despite: why nobody would choose the kernel, which ``--kernel`` names all the same.
    """

    kernel: KernelSpec
    rank: tuple[int, ...]
    note: str = ""
    despite: tuple[Reason, ...] = ()

    @property
    def backend(self) -> str:
        return self.kernel.backend

    @property
    def arch(self) -> str:
        return self.kernel.arch

    @property
    def order(self) -> str:
        """The reason for the rank alone."""
        return self.note.partition(KNOWN)[0]

    @property
    def known(self) -> tuple[str, ...]:
        """The known faults of the kernel that concern the problem, a sentence and a link each. In front of one that an
        emulated device finds stands the kind of the finding: ``lds-race: ...``."""
        return tuple(self.note.split(KNOWN)[1:])

    def explaining(self, kinds: Collection[str]) -> tuple[str, ...]:
        """Those known faults that cause findings of some kinds."""
        return tuple(text for text in self.known if text.partition(": ")[0] in kinds)


@dataclass(frozen=True)
class Unsupported:
    """A kernel, or a whole backend (``kernel`` None), that does not serve the problem, with all reasons."""

    backend: str
    arch: str
    kernel: KernelSpec | None
    reasons: tuple[Reason, ...]

    def __post_init__(self) -> None:
        if not self.reasons:
            raise ValueError("a refusal without a Reason")

    @property
    def insisted(self) -> Decision:
        """The decision about a kernel that is named: supported if only reasons against choosing it stand (``Severity.CHOICE``)."""
        if self.kernel is None or any(r.severity is not Severity.CHOICE for r in self.reasons):
            return self
        return Supported(self.kernel, (), despite=self.reasons)

    @property
    def distance(self) -> tuple[int, int]:
        """How near a miss this is: the sum of the severities, then their number."""
        return (sum(int(r.severity) for r in self.reasons), len(self.reasons))


Decision = Supported | Unsupported


@dataclass(frozen=True)
class Trace:
    """Every decision for a problem. ``supported`` is ordered best first, ``unsupported`` nearest first."""

    decisions: tuple[Decision, ...]

    @property
    def supported(self) -> tuple[Supported, ...]:
        return tuple(d for d in self.decisions if isinstance(d, Supported))

    @property
    def unsupported(self) -> tuple[Unsupported, ...]:
        misses = [d for d in self.decisions if isinstance(d, Unsupported)]
        return tuple(sorted(misses, key=lambda d: d.distance))

    @property
    def chosen(self) -> Supported | None:
        """The best kernel, or None when nothing serves the problem."""
        found = self.supported
        return found[0] if found else None

    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of the nearest miss of every backend, without repeats."""
        out: dict[str, Reason] = {}
        seen: set[str] = set()
        for miss in self.unsupported:
            if miss.backend not in seen:
                seen.add(miss.backend)
                out.update({f"{r.id} {r.text}": r for r in miss.reasons})
        return tuple(out.values())
