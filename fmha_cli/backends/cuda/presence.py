"""Whether the machine may have an NVIDIA driver, judged by files that exist. Nothing is loaded or opened."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fmha_cli.domain.device import Availability, State

DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device files of the driver: Linux's own, and Windows' under WSL. Looking for them costs almost nothing, so a machine
without a driver need not start a worker and import cuda-python to find out."""

_LIBRARY = "libcuda.so.1"
_SEARCH_PATH = "LD_LIBRARY_PATH"


def may_be_driven(drivers: Sequence[Path] = DRIVERS, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether it is worth asking the driver: a device file exists, or a libcuda is on the loader's search path."""
    folders = (entry for entry in environ.get(_SEARCH_PATH, "").split(os.pathsep) if entry)
    return any(path.exists() for path in drivers) or any(Path(entry, _LIBRARY).exists() for entry in folders)


def undriven() -> Availability:
    """The result of a probe where :func:`may_be_driven` is false."""
    return Availability(
        state=State.NO_DEVICE,
        why=f"no NVIDIA GPU driver is loaded here ({DRIVERS[0]} is missing)",
        help="--arch A builds for an architecture without one",
    )
