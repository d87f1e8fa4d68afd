"""``Builtin``: the facts about a built-in backend that the command line needs before it imports the backend."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fmha_cli.domain.flags import Flag


class Use(StrEnum):
    """The purpose of a backend's own option, which decides which commands offer it."""

    SOURCES = "sources"
    """The sources that kernels are built against: commands that build, ``doctor`` and ``sources``. Builds get the value
    in ``BuildContext.options``."""
    REVISION = "revision"
    """The revision of a ``Catalogued`` backend: commands that select kernels."""


@dataclass(frozen=True)
class Builtin:
    """A built-in backend.

    Attributes:
        path: import path of its package.
        device: how ``--help`` writes the ids of its devices (``cpu``, ``hip:N``); None if there is no device to name.
        options: options that only this backend understands, each with its use.
        binaries: of a ``Comparable`` backend, the file names of its upstream's programs (``domain.counterpart``), the
            forward one first; ``fmha parity --help`` shows them.
        suites: the suites of cases for these programs that come with the tool, the default first.
        exports: of an ``Exporting`` backend, the forms of ``fmha tune export``.
        variables: ``FMHA_*`` variables that it reads and that are not options.
    """

    path: str
    device: str | None = None
    options: tuple[tuple[Flag, Use], ...] = ()
    binaries: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
