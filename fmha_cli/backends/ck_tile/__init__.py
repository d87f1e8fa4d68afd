"""The CK-Tile backend plugin: ROCm's fused attention kernels, built from the headers of Composable Kernel."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.ck_tile.backend import CkTileBackend
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.protocols import Backend

backend: Backend = CkTileBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
