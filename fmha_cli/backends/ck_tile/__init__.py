"""The CK-Tile backend: ROCm's fused attention kernels, from the headers of Composable Kernel; as a plugin."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.hookspecs import hookimpl
from fmha_cli.protocols import Backend

backend: Backend = CkTileBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
