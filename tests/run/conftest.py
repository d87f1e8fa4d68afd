"""The paper emulator for tests of the walk."""

from __future__ import annotations

from tests.support.fixtures.emulated import emulator, sees

__all__ = ["emulator", "sees"]
