"""What processes use, and limits on it: the module ``resource``, which Windows lacks."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType


def _module() -> ModuleType | None:
    try:
        return importlib.import_module("resource")
    except ImportError:
        return None


RESOURCE = _module()


def scale_of_peak() -> int:
    """Bytes of one unit of ``ru_maxrss``: macOS counts bytes, other systems KiB."""
    return 1 if sys.platform == "darwin" else 1024


def own_peak() -> int:
    """The largest resident size of this process in bytes; 0 where it is unknown."""
    return 0 if RESOURCE is None else int(RESOURCE.getrusage(RESOURCE.RUSAGE_SELF).ru_maxrss) * scale_of_peak()


def no_core_dumps() -> None:
    """A crash of this process leaves no core file: a sweep of crashing kernels must not fill the disk."""
    if RESOURCE is not None:
        hard = RESOURCE.getrlimit(RESOURCE.RLIMIT_CORE)[1]
        RESOURCE.setrlimit(RESOURCE.RLIMIT_CORE, (0, hard))
