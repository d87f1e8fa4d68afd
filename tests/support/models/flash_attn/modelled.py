"""The FlashAttention backend on a simulated device whose kernels are the numpy model. Tests name it as an entry point."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.kernel import KernelSpec
from tests.support.models.flash_attn.kernels import run_kernel
from tests.support.models.kernel_memory import Memory
from tests.support.models.modelled_session import ModelledBackend


def run_wildly(
    kernel: KernelSpec, block: bytes, grid: tuple[int, int, int], memory: Memory, extra: Sequence[int]
) -> None:
    """A kernel that writes past all allocations."""
    memory.bytes_at(8, 8)[...] = 0


modelled, wild = ModelledBackend(UPSTREAM, run_kernel), ModelledBackend(UPSTREAM, run_wildly)
