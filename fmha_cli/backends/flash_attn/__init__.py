"""The plugin of the FlashAttention backend: FlashAttention-2 for NVIDIA GPUs, compiled kernel by kernel from upstream's
sources."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.protocols import Backend

backend: Backend = CubinBackend(UPSTREAM)


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
