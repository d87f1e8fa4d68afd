"""The paper emulator for tests of the walk."""

from __future__ import annotations

from emulated_fixtures import emulator, sees

__all__ = ["emulator", "sees"]
