"""Attention kernels in Triton's language for NVIDIA and AMD GPUs. Triton itself runs only in the child that compiles."""

from __future__ import annotations

from fmha_cli import plugin
from fmha_triton.backend import TritonBackend


@plugin.hookimpl
def fmha_register_backends() -> list[plugin.Backend]:
    return [TritonBackend()]
