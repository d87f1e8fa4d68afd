"""Where the checkout is, and how a child process imports what this process can."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def importable(*first: str | Path) -> str:
    """A value of ``PYTHONPATH`` for child processes: ``first``, then every folder from which this process imports."""
    return os.pathsep.join([*map(str, first), *(entry or os.getcwd() for entry in sys.path)])
