"""``Result``, the outcome of one check, and the table of all outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

NOT_RUN = "NOT_RUN"


@dataclass
class Result:
    """One row of the check.

    Attributes:
        part: cases, random, speed, decode, ceilings or sanitizer.
        backend: whose row it is, and arch: for which architecture its kernels are; empty for the machine's ceilings.
        verdict: one of ``fmha``'s own (PASSED, WRONG, ...), or NOT_RUN; the worst of its rows.
        used: the largest share of an error budget that was used.
        figures: the measurements, by name; times in nanoseconds.
    """

    part: str
    name: str
    flags: str = ""
    verdict: str = NOT_RUN
    families: list[str] = field(default_factory=list)
    used: float | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    why: str | None = None
    backend: str = ""
    arch: str = ""


def not_run(part: str, names: Iterable[tuple[str, str]], why: str) -> list[Result]:
    """NOT_RUN rows for a part."""
    return [Result(part, name, flags, why=why) for name, flags in names]


def table(results: Sequence[Result]) -> Iterator[str]:
    """The short table: for each backend a line for each part, then the failures, then the speeds."""
    for backend in dict.fromkeys(r.backend for r in results):
        if backend:
            yield f"{backend}:"
        yield from _table([r for r in results if r.backend == backend])


def _table(results: Sequence[Result]) -> Iterator[str]:
    parts = list(dict.fromkeys(r.part for r in results))
    yield f"{'part':10} {'rows':>5}  verdicts"
    for part in parts:
        mine = [r for r in results if r.part == part]
        counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(Counter(r.verdict for r in mine).items()))
        used = max((r.used for r in mine if r.used is not None), default=None)
        yield f"{part:10} {len(mine):5}  {counts}" + (f"; at most {used:.0%} of an error budget" if used else "")
    for part in parts:
        whys = Counter((r.verdict, r.why) for r in results if r.part == part and r.why)
        for (verdict, why), n in whys.most_common(6):
            first = next(r.name for r in results if r.part == part and (r.verdict, r.why) == (verdict, why))
            yield f"  {part}: {first}{f' and {n - 1} more' if n > 1 else ''}: {verdict}: {why[:200]}"
    for r in results:
        if r.figures.get("line"):
            yield f"  {r.part:9} {r.name:34} {r.figures['line']}"


def good(results: Iterable[Result]) -> bool:
    """Whether there is no failure; NOT_RUN is not a failure."""
    return all(r.verdict in ("PASSED", "UNCHECKED", "MISTRUSTED", NOT_RUN) for r in results)
