"""``Settings``: run-time settings of kernels that depend on the processor, not on the problem, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fmha_cli.domain.members import Count


class SettingsFrom(StrEnum):
    """The source of settings."""

    FACTS = "facts"
    """The facts of the microarchitecture (``arch_specs/_processors.json``)."""
    MEASURED = "measured"
    """A short measurement on this machine, kept in the cache."""
    KERNEL = "kernel"
    """The kernel's own default: no fact is known, and nothing was measured."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings by name. The backend knows the names."""

    values: Annotated[Mapping[str, Count], "by name"]
    source: SettingsFrom
