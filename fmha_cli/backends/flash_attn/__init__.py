"""The FlashAttention backend: FlashAttention-2 for NVIDIA GPUs, compiled kernel by kernel from upstream's sources; as a
plugin."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.flash_attn.backend import FlashAttentionBackend
from fmha_cli.hookspecs import hookimpl
from fmha_cli.protocols import Backend

backend: Backend = FlashAttentionBackend()


@hookimpl
def fmha_register_backends() -> Sequence[Backend]:
    return (backend,)
