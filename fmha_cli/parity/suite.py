"""Suites: named lists of cases as data, expanded lazily.

A suite file (JSON) holds ``title``, ``sources`` (file and revision of each) and ``matrices``. A matrix has a
``group``, a ``program``, ``axes`` (name and values, the first one varying slowest) and ``lines``: the settings of
each run. ``$axis`` inside a value of a line or of a later axis is replaced by the axis's value at that point. Instead
of ``axes`` and ``lines`` a matrix may hold ``cases``: a name and its own settings on top of ``settings``.
``include`` names other suites whose cases come first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmha_cli.domain.counterpart import Counterpart, Program, UpstreamCase
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.regular import open_regular
from fmha_cli.domain.suggest import NameKind, suggest

_REFERENCE = re.compile(r"\$(\w+)")
_MATRIX = {"group", "program", "axes", "lines", "cases", "settings"}


@dataclass(frozen=True)
class SuiteSource:
    """The origin of cases: a file of upstream, and its revision."""

    file: str
    revision: str


@dataclass(frozen=True)
class Suite:
    """A suite of cases.

    Attributes:
        matrices: the checked matrices; every call of :meth:`cases` expands them again.
        options: the options of each program with their defaults.
    """

    name: str
    title: str
    sources: tuple[SuiteSource, ...]
    matrices: tuple[Mapping[str, Any], ...]
    options: Mapping[Program, Mapping[str, str]]

    def cases(self) -> Iterator[UpstreamCase]:
        """All cases, in the order of the file."""
        for matrix in self.matrices:
            yield from _expanded(matrix, self.options)


def load_suite(text: str, upstream: Counterpart) -> Suite:
    """Load a suite by its name, or from a suite file.

    Raises:
        UsageError: Y001, there is no such suite or file; Y002, the file is not a suite.
    """
    known = upstream.suites()
    if text in known:
        return _parsed(text, known[text].read_text("utf-8"), text, upstream)
    path = Path(text)
    if not path.suffix and not path.exists():
        help = f"{suggest(text, known)}; or the path of a suite file"
        raise UsageError(f"--suite {text}: no such suite", code="Y001", where="--suite", help=help)
    try:
        with open_regular(path) as file:
            return _parsed(path.stem, file.read().decode("utf-8"), text, upstream)
    except (OSError, ValueError) as fault:  # ValueError: not UTF-8, or a zero byte in the name
        raise UsageError(f"--suite {text}: cannot be read", code="Y001", where="--suite", why=str(fault)) from fault


def _parsed(name: str, text: str, where: str, upstream: Counterpart) -> Suite:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as fault:
        raise _malformed(where, f"not JSON: {fault}") from fault
    if not isinstance(data, dict) or set(data) - {"title", "sources", "matrices", "include", "notes"}:
        raise _malformed(where, "an object of title, sources, matrices, include, notes is needed")
    sources: list[SuiteSource] = []
    matrices: list[Mapping[str, Any]] = []
    for other in data.get("include", []):
        if other not in upstream.suites() or other == name:
            raise _malformed(where, f"include {other!r}: no such suite")
        base = load_suite(other, upstream)
        sources += base.sources
        matrices += base.matrices
    for source in data.get("sources", []):
        if not isinstance(source, dict) or set(source) != {"file", "revision"}:
            raise _malformed(where, "a source has a file and a revision")
        sources.append(SuiteSource(str(source["file"]), str(source["revision"])))
    for matrix in data.get("matrices", []):
        _check(matrix, where, upstream.options)
        matrices.append(matrix)
    if not matrices:
        raise _malformed(where, "no matrices")
    return Suite(name, str(data.get("title", name)), tuple(dict.fromkeys(sources)), tuple(matrices), upstream.options)


def _check(matrix: object, where: str, options: Mapping[Program, Mapping[str, str]]) -> None:
    """Refuse a matrix of the wrong shape, or with unknown keys, options or axes. Raises UsageError: Y002."""
    if not isinstance(matrix, dict) or set(matrix) - _MATRIX or matrix.get("program") not in list(Program):
        raise _malformed(where, f"a matrix has a program (fwd or bwd) and keys of {', '.join(sorted(_MATRIX))}")
    if ("cases" in matrix) == ("lines" in matrix):
        raise _malformed(where, "a matrix has either lines or cases")
    known = options[Program(matrix["program"])]
    shapes = {"lines": list, "cases": dict, "axes": list, "settings": dict}
    if not all(isinstance(matrix.get(key, kind()), kind) for key, kind in shapes.items()):
        raise _malformed(where, "lines and axes are lists, cases and settings are objects")
    axes = [axis[0] for axis in matrix.get("axes", []) if isinstance(axis, list) and len(axis) == 2 and axis[1]]
    if len(axes) != len(matrix.get("axes", [])):
        raise _malformed(where, "an axis is a name and a list of values")
    given = [matrix.get("settings", {})]
    given += [*matrix.get("lines", []), *matrix.get("cases", {}).values()]
    if not all(isinstance(settings, dict) for settings in given):
        raise _malformed(where, "a line, and the settings of a case, are objects")
    for settings in given:
        for option, value in settings.items():
            if option not in known:
                raise _malformed(where, f"option {option!r}: {suggest(option, known, NameKind.OPTION)}")
            for name in _REFERENCE.findall(str(value)):
                if name not in axes:
                    raise _malformed(where, f"{option}: no axis ${name}")


def _malformed(where: str, why: str) -> UsageError:
    return UsageError(f"--suite {where}: not a suite", code="Y002", where="--suite", why=why)


def _expanded(matrix: Mapping[str, Any], options: Mapping[Program, Mapping[str, str]]) -> Iterator[UpstreamCase]:
    program, group = Program(matrix["program"]), str(matrix.get("group", ""))
    defaults = options[program]
    base = {k: str(v) for k, v in matrix.get("settings", {}).items()}
    for name, own in matrix.get("cases", {}).items():
        yield UpstreamCase(name, program, {**base, **{k: str(v) for k, v in own.items()}}, group, defaults)
    count = 0
    for point in _points(matrix.get("axes", [])) if "lines" in matrix else ():
        for line in matrix["lines"]:
            count += 1
            settings = {k: _filled(str(v), point) for k, v in {**line, **base}.items()}
            yield UpstreamCase(f"{group or program.value}-{count}", program, settings, group, defaults)


def _points(axes: Sequence[Sequence[Any]]) -> Iterator[dict[str, str]]:
    """The points of the axes in nested-loop order; a later axis may use the values of earlier ones."""
    stack: list[tuple[int, dict[str, str]]] = [(0, {})]
    while stack:
        depth, point = stack.pop()
        if depth == len(axes):
            yield point
            continue
        name, values = axes[depth]
        stack.extend((depth + 1, {**point, name: _filled(str(v), point)}) for v in reversed(values))


def _filled(text: str, point: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: point[found[1]], text)
