"""The identity of an invocation and of its builds: a run is finished by the invocation that began it, or by none."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.domain.journal import Start

_SHOWN = 3
"""Differences that one message names."""

_LONGEST = 80


def difference(there: Start, here: Start) -> str | None:
    """How the invocation that wrote a journal differs from this one, in words; None if it does not.

    Only what can change a row counts. The command line itself, the time and the number of compilers do not.
    """
    if there.fmha != here.fmha:
        return f"fmha {there.fmha} wrote it, this is {here.fmha}"
    names = dict.fromkeys((*here.parts, *there.parts))
    found = [said for name in names if (said := _part(name, here.parts.get(name), there.parts.get(name)))]
    found = found or _rows(there, here)
    if not found:
        return None
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "it belongs to another invocation: " + "; ".join(found[:_SHOWN]) + more


def _part(name: str, here: str | None, there: str | None) -> str | None:
    if here == there:
        return None
    if here is None:
        return f"{name} is absent here, {_short(there)} in the journal"
    if there is None:
        return f"{name} is {_short(here)} here, absent in the journal"
    if here.startswith("sha256:") and there.startswith("sha256:"):
        return f"{name} has changed"
    return f"{name} is {_short(here)} here, {_short(there)} in the journal"


def _rows(there: Start, here: Start) -> list[str]:
    for number, (mine, other) in enumerate(zip(here.rows, there.rows, strict=False), 1):
        if mine != other:
            return [f"row {number} is {_short(mine.what)} here, {_short(other.what)} in the journal"]
    if len(here.rows) != len(there.rows):
        return [f"it has other rows than this command line ({len(there.rows)} and {len(here.rows)})"]
    return []


def _short(text: str | None) -> str:
    """A value that a stranger's file may hold, short and in printable characters."""
    shown = str(text) if str(text).isprintable() else ascii(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 3] + "..."


def rebuilt(there: Mapping[str, str | None], here: Mapping[str, str | None]) -> str | None:
    """How the kernels of a journal differ from those built now, in words; None if no kernel of both differs.

    Args:
        there, here: kernel digest, or ``DIGEST@DIR`` of a kernel from its own tree -> digest of the key of its build,
            None if it could not be built.
    """
    for name, key in here.items():
        if name in there and there[name] != key:
            digest, at, home = name.partition("@")
            kernel = f"{digest[:8]}{at}{_short(home)}"
            if key is None or there[name] is None:
                now, then = ("cannot", "could") if key is None else ("can", "could not")
                return f"kernel {kernel} {now} be built here and {then} be built for the journal"
            return f"kernel {kernel} is built from other sources, with other flags or by another compiler than there"
    return None
