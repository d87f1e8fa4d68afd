"""The parts of ROCm that a system clang lacks, from the pinned source."""

from __future__ import annotations

import re
from pathlib import Path

from fmha_cli.sources.pins import pin_of
from fmha_cli.sources.store import fetch_source
from fmha_cli.toolchain.notice import Notify
from fmha_cli.toolchain.rocm.root import RocmParts, RocmSupply

PINNED = "triton-amd"
_BELOW = Path("triton", "backends", "amd")
_VERSION = re.compile(r"^#define HIP_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", re.MULTILINE)


def rocm_supply(cache_root: Path, *, offline: bool, notify: Notify, looking: bool = False) -> RocmSupply:
    """A supply that calls :func:`rocm_parts` when a compiler needs them."""
    digest = pin_of(PINNED).digest
    return RocmSupply(digest, lambda: rocm_parts(cache_root, offline=offline, notify=notify, looking=looking))


def rocm_parts(cache_root: Path, *, offline: bool, notify: Notify, looking: bool = False) -> RocmParts:
    """HIP's headers and the device libraries; ``looking`` as for ``fetch_source``.

    Raises:
        EnvironmentProblem: they cannot be obtained (S101-S104).
    """
    folder = fetch_source(PINNED, cache_root, offline=offline, notify=notify, looking=looking) / _BELOW
    found = dict(_VERSION.findall((folder / "include" / "hip" / "hip_version.h").read_text("utf-8")))
    version = ".".join(found.get(part, "0") for part in ("MAJOR", "MINOR", "PATCH"))
    lib = folder / "lib"
    return RocmParts(folder / "include", lib / "ocml.bc", lib / "ockl.bc", version, f"the pinned source {PINNED}")
