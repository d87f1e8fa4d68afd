"""A headless Chromium for tests, which are skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import chromium
import pytest
from chromium import Browser, NoBrowser

__all__ = ["Browser", "browser"]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """The browser of ``benchmarks/chromium.py``."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(chromium.browser(folder))
        except NoBrowser as fault:
            pytest.skip(str(fault))
        yield started
