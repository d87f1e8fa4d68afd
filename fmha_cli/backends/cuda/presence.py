"""Whether an NVIDIA driver may be here, by looking at files: nothing is loaded or opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.device import Availability, State

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Where the driver shows itself: Linux's, and Windows' under WSL. Looking costs nothing, so a machine without one does
not pay for a worker and cuda-python to be told so."""

_LIBRARY = "libcuda.so.1"
_SEARCH_PATH = "LD_LIBRARY_PATH"


def may_be_driven(drivers: Sequence[Path] = DRIVERS, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether asking the driver is worth it: one shows itself, or the loader is pointed at a libcuda."""
    folders = (entry for entry in environ.get(_SEARCH_PATH, "").split(os.pathsep) if entry)
    return any(path.exists() for path in drivers) or any(Path(entry, _LIBRARY).exists() for entry in folders)


def undriven() -> Availability:
    """What a probe answers where :func:`may_be_driven` is false."""
    return Availability(
        state=State.NO_DEVICE,
        why=f"no NVIDIA GPU driver is loaded here ({DRIVERS[0]} is missing)",
        help="--arch A builds for an architecture without one",
    )
