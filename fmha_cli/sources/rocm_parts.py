"""The parts of ROCm that a clang of the system lacks, from the pinned source."""

from __future__ import annotations

import re
from pathlib import Path

from fmha_cli.build.notice import Notify
from fmha_cli.build.rocm.root import RocmParts, RocmSupply
from fmha_cli.sources.pins import pin_of
from fmha_cli.sources.store import fetched

PINNED = "triton-amd"
_BELOW = Path("triton", "backends", "amd")
_VERSION = re.compile(r"^#define HIP_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


def rocm_supply(cache_root: Path, *, offline: bool, notify: Notify) -> RocmSupply:
    """Gives :func:`rocm_parts` when a compiler needs them."""
    return RocmSupply(pin_of(PINNED).digest, lambda: rocm_parts(cache_root, offline=offline, notify=notify))


def rocm_parts(cache_root: Path, *, offline: bool, notify: Notify) -> RocmParts:
    """HIP's headers and the device libraries.

    Raises:
        EnvironmentProblem: they cannot be had (S101-S104).
    """
    folder = fetched(PINNED, cache_root, offline=offline, notify=notify) / _BELOW
    found = dict(_VERSION.findall((folder / "include" / "hip" / "hip_version.h").read_text("utf-8")))
    version = ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))
    lib = folder / "lib"
    return RocmParts(folder / "include", lib / "ocml.bc", lib / "ockl.bc", version, f"the pinned source {PINNED}")
