"""Cubins with the real tables of a FlashAttention kernel and no code, for sessions on a simulated device."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

from cubin_tiny import tiny_cubin

from fmha_cli.codegen.flash_attn.emit import SYMBOL, VERSION
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.codegen.flash_attn.traits import algorithm_of, smem_bytes, threads
from fmha_cli.codegen.struct import ctypes_structure, host_layout
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.plan import Plan


def fake_cubin(kernel: KernelSpec, *, drift: int = 0) -> bytes:
    """The cubin of a kernel; ``drift`` shifts the last field by that many bytes."""
    instance = instance_of(kernel)
    block: type = instance.block
    size, fields = ctypes.sizeof(ctypes_structure(block)), list(host_layout(block))
    name, offset, width = fields[-1]
    fields[-1] = (name, offset + drift, width)
    pairs = [number for _, offset, width in fields for number in (offset, width)]
    table = (VERSION, size, len(fields), *pairs)
    facts = (*algorithm_of(kernel).tile, kernel.signature.hdim, threads(kernel), smem_bytes(kernel))
    arch = kernel.arch.removeprefix("sm_")
    return tiny_cubin(
        SYMBOL,
        (size, *(4 for _ in instance.extra)),
        capability=int(arch.rstrip("a")),
        accelerated=arch.endswith("a"),
        data={
            f"{SYMBOL}_abi_table": struct.pack(f"<{len(table)}I", *table),
            f"{SYMBOL}_abi_names": " ".join(n for n, _, _ in fields).encode() + b"\0",
            f"{SYMBOL}_facts": struct.pack("<5I", *facts),
        },
    )


def fake_cubins(plan: Plan, folder: Path) -> list[Path]:
    """Write a file for each stage of a plan."""
    paths = [folder / f"{stage.kernel.digest}.cubin" for stage in plan.stages]
    for path, stage in zip(paths, plan.stages, strict=True):
        path.write_bytes(fake_cubin(stage.kernel))
    return paths
