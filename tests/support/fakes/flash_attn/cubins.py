"""Cubins with the real tables of a FlashAttention kernel and no code, for sessions on a simulated device."""

from __future__ import annotations

from pathlib import Path

from fmha_cli.backends.flash_attn.launches import expect_exports
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan
from tests.support.fakes.exports import fake_exports


def fake_cubin(kernel: KernelSpec, *, drift: int = 0) -> bytes:
    """The cubin of a kernel; ``drift`` shifts the last field by that many bytes."""
    return fake_exports(kernel.arch, expect_exports(kernel), drift=drift)


def fake_cubins(plan: Plan, folder: Path) -> list[Path]:
    """Write a file for each stage of a plan."""
    paths = [folder / f"{stage.kernel.digest}.cubin" for stage in plan.stages]
    for path, stage in zip(paths, plan.stages, strict=True):
        path.write_bytes(fake_cubin(stage.kernel))
    return paths
