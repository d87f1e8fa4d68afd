"""``CliCall``: everything a command needs to know about how it was called, and its way to print data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmha_cli.cli.console import Console
from fmha_cli.cli.output import SHAPED, Output
from fmha_cli.cli.settings import OptionValues
from fmha_cli.cli.streams import terminal_width
from fmha_cli.discovery.builtins import revisions_in
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.fields import BY_KEY
from fmha_cli.report.form import Format
from fmha_cli.report.shape import TableShape
from fmha_cli.toolchain.cache.layout import CacheLayout
from fmha_cli.toolchain.cache.root import cache_root as find_root
from fmha_cli.toolchain.cache.root import open_root

if TYPE_CHECKING:
    from fmha_cli.discovery.kernel_index import KernelTables
    from fmha_cli.discovery.registry import Registry


@dataclass
class CliCall:
    """One running command.

    Attributes:
        command: its full name (``cache ls``).
        argv: the words after ``fmha``.
        arguments: positional arguments by name, None or empty where not given.
        files: the configuration files in use.
    """

    command: str
    argv: tuple[str, ...]
    settings: OptionValues
    arguments: Mapping[str, Any]
    console: Console
    environ: Mapping[str, str]
    files: tuple[Path, ...] = ()
    color: bool = False

    @cached_property
    def problem_flags(self) -> dict[str, Any]:
        """The values of the problem's fields that were given."""
        values = self.settings.values
        return {key: values[key].value for key in BY_KEY if key in values and values[key].value is not False}

    @cached_property
    def registry(self) -> Registry:
        """The registry, built when first needed, with the revisions of the backends' sources that were chosen.

        Raises:
            UsageError: no such revision.
        """
        from fmha_cli.discovery.registry import build_registry  # pluggy: 5 ms

        chosen = revisions_in(self.settings.text)
        registry = build_registry(lambda: self.tables)
        return registry.at_revisions(chosen) if chosen else registry

    @cached_property
    def tables(self) -> KernelTables:
        """Where the index of kernels is kept."""
        from fmha_cli.run.kernel_tables import StoredTables

        return StoredTables(self.cache_root, self.console.say)

    @cached_property
    def output(self) -> Output:
        """Where data goes, in which format, and how tables are shown.

        Raises:
            UsageError: several formats; a limit that is not a number.
        """
        forms = [form for form in Format if self.settings.on(form)]
        if len(forms) > 1:
            first, second = (f"--{form}" for form in forms[:2])
            help = f"give {first} now, then fmha results show latest {second}"
            raise UsageError(f"{first} and {second} contradict each other", code="E002", where=second, help=help)
        form = forms[0] if forms else Format.TABLE
        path = self.settings.text("output")
        file = Path(path) if path and path != "-" else None
        shape = None
        if form in SHAPED:
            shape = self._shape(fits=form is Format.TABLE and file is None)
        return Output(form, file, color=self.color, shape=shape, room=self.console.room, say=self.console.say)

    def _shape(self, *, fits: bool) -> TableShape:
        """The shape of tables that the options ask for; tables fit the terminal they are printed to."""
        return TableShape(
            width=terminal_width(self.environ, sys.stdout) if fits and not self.settings.on("wide") else None,
            columns=self._listed("columns"),
            sort=self._listed("sort"),
            limit=self.settings.size("limit", 0, 1) if "limit" in self.settings.values else None,
            summed=not self.settings.on("quiet"),
        )

    def _listed(self, key: str) -> tuple[str, ...]:
        return tuple(filter(None, map(str.strip, (self.settings.text(key) or "").split(","))))

    @property
    def cache_root(self) -> Path:
        """The root of the build cache."""
        return find_root(self.settings.text("cache_dir"), self.environ)

    def cache(self, *, create: bool = False) -> CacheLayout:
        """The build cache, after a check that it is safe.

        Raises:
            EnvironmentProblem: it is not.
        """
        return open_root(self.cache_root, create=create)

    def argument(self, name: str) -> str | None:
        """The text of one argument."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else None
