"""The settings and fixtures of the core's tests, for the tests of the benchmarks: these alone may import a benchmark."""

from __future__ import annotations

from tests.conftest import _isolated

__all__ = ["_isolated"]
