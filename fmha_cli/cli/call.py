"""``Call``: everything a command needs to know about how it was called, and its way to print data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmha_cli.cli.options import FORMATS
from fmha_cli.cli.output import Output
from fmha_cli.cli.settings import Settings
from fmha_cli.cli.voice import Voice
from fmha_cli.errors import UsageError
from fmha_cli.flags import BY_KEY

if TYPE_CHECKING:
    from fmha_cli.registry import Registry


@dataclass
class Call:
    """One command being carried out.

    Attributes:
        command: its full name (``cache ls``); argv: the words after ``fmha``.
        arguments: positional arguments by name, None or empty where not given.
        files: the configuration files in force.
    """

    command: str
    argv: tuple[str, ...]
    settings: Settings
    arguments: Mapping[str, Any]
    voice: Voice
    environ: Mapping[str, str]
    files: tuple[Path, ...] = ()
    color: bool = False
    problem_flags: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        values = self.settings.values
        self.problem_flags = {
            key: values[key].value for key in BY_KEY if key in values and values[key].value is not False
        }

    @cached_property
    def registry(self) -> Registry:
        """The registry, built when first needed."""
        from fmha_cli.registry import build_registry

        return build_registry()

    @cached_property
    def output(self) -> Output:
        """Where data goes, in which format.

        Raises:
            UsageError: several formats.
        """
        forms = [name for name in FORMATS if self.settings.on(name)]
        if len(forms) > 1:
            first, second = (f"--{name}" for name in forms[:2])
            raise UsageError(f"{first} and {second} contradict each other", code="E002", where=second)
        form = forms[0] if forms else "table"
        path = self.settings.text("output")
        return Output(form, Path(path) if path and path != "-" else None, color=self.color)

    def argument(self, name: str) -> str | None:
        """The text of one argument."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else None
