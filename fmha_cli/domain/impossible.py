"""The errors of problems that are undefined or contradict themselves: what, where, why, and the remedy."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.domain.errors import ImpossibleProblem


def impossible(code: str, what: str, where: str, why: str, help: str | None = None) -> ImpossibleProblem:
    """The error for a problem that is undefined or contradicts itself."""
    return ImpossibleProblem(what, code=code, where=where, why=why, help=help)


def at_least(low: int, values: Mapping[str, int]) -> None:
    """Refuse values below ``low``; ``values`` has them by the names of their flags. Raises ImpossibleProblem: P005."""
    for name, value in values.items():
        if value < low:
            why, one = f"{name} must be at least {low}", f"--{name}{':' if name == 'kv-cache paged' else ' '}{low}"
            raise impossible("P005", f"--{name} {value}", f"--{name}", why, f"{one} or more")


def conflict(first: str, second: str, why: str, help: str = "leave one of them out") -> ImpossibleProblem:
    """P007, two flags that contradict each other."""
    return impossible("P007", f"{first} and {second} contradict each other", second, why, help)


def lacks(flag: str, other: str, why: str) -> ImpossibleProblem:
    """P007, a flag without another one that it needs."""
    ways = {
        "--kv-cache": "--kv-cache linear or paged:128",
        "--append": "--append N",
        "--seqlens-q": "--seqlens-q N,N...",
    }
    return impossible("P007", f"{flag} needs {other}", flag, why, f"add {ways.get(other, other)}, or leave {flag} out")
