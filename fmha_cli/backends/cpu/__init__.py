"""The CPU backend as a plugin."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.cpu.backend import CpuBackend
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.protocols import Backend

backend: Backend = CpuBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
