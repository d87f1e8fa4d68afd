"""Where the code of a plugin is at fault: the member, the file and the line, for its author."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, TracebackType
from typing import Any


def package_of(module: str) -> str:
    """The package that a plugin's code is in, of its entry point (``module`` or ``module:attribute``). That of a built-in
    backend is its own, not the whole tool."""
    name = module.partition(":")[0]
    return name if name.partition(".")[0] == __name__.partition(".")[0] else name.partition(".")[0]


def raised(fault: BaseException, package: str | None) -> str:
    """An exception as text, with the last place in a package that it passed: ``KeyError: 'x' in launch (FILE:103)``."""
    place = None if package is None else place_of(fault, package)
    return f"{type(fault).__name__}: {fault}{f' {place}' if place else ''}"


def place_of(fault: BaseException, package: str) -> str | None:
    """``in launch (FILE:103)``: the last place in a package that an exception passed; None if it passed none.

    The module that does not parse was never entered, so a SyntaxError names it itself.
    """
    if isinstance(fault, SyntaxError) and fault.filename:
        return f"({fault.filename}:{fault.lineno})"
    last = None
    for trace in _traces(fault.__traceback__):
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name == package or name.startswith(f"{package}."):
            last = trace
    if last is None:
        return None
    code = last.tb_frame.f_code
    where = "" if code.co_name.startswith("<") else f"in {code.co_name} "
    return f"{where}({code.co_filename}:{last.tb_lineno})"


def _traces(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def lacking(thing: object, protocol: type) -> str | None:
    """``MyBackend (FILE:85) is not a Backend: it lacks rules(self)``: why an object does not implement a protocol; None if it does.

    Every member is named at once. A class in the place of an instance has members, but cannot answer.
    """
    if isinstance(thing, type):
        return f"{thing.__name__}{_defined(thing)} is a class; {protocol.__name__} means an instance of it"
    missing = [_spelled(protocol, name) for name in _members(protocol) if not hasattr(thing, name)]
    if not missing:
        return None
    return f"{type(thing).__name__}{_defined(type(thing))} is not a {protocol.__name__}: it lacks {', '.join(missing)}"


def _members(protocol: type) -> Iterator[str]:
    """The members that a protocol declares, its attributes first."""
    for kind in (protocol, *protocol.__mro__[1:-1]):
        if kind.__module__ != "typing":
            yield from vars(kind).get("__annotations__", {})
            yield from (name for name, value in vars(kind).items() if _is_member(name, value))


def _is_member(name: str, value: Any) -> bool:
    return isinstance(value, FunctionType | property) and not name.startswith("_")


def _spelled(protocol: type, name: str) -> str:
    """``rules(self)`` for a method, the name for an attribute."""
    member = getattr(protocol, name, None)
    return f"{name}({', '.join(inspect.signature(member).parameters)})" if isinstance(member, FunctionType) else name


def _defined(kind: type) -> str:
    """`` (FILE:85)``: where a class is defined; empty if no file tells."""
    try:
        return f" ({inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]})"
    except (OSError, TypeError):
        return ""
