"""The plugin of the FlashAttention-3 backend: upstream's kernels for Hopper, compiled kernel by kernel from its sources."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.cuda.cubin_backend import CubinBackend
from fmha_cli.backends.flash_attn_3.upstream import UPSTREAM
from fmha_cli.discovery.hookspecs import hookimpl
from fmha_cli.domain.protocols import Backend

backend: Backend = CubinBackend(UPSTREAM)


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
