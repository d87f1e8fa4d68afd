"""``fmha tune ls``, ``rm``, ``verify`` and ``export``: what was remembered."""

from __future__ import annotations

from fmha_cli.cli.command import Command

COMMANDS: dict[str, tuple[str, Command]] = {}
