"""Golden texts of the FlashAttention emitter: one kernel per family, two head dims, three architectures, whose tiles differ."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

from golden_units import Golden

from fmha_cli.backends.flash_attn.catalogue import FAMILIES, family_kernels
from fmha_cli.codegen.flash_attn.emit import SYMBOL, emit
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec

ARCHS = ("sm_80", "sm_86", "sm_90")
HDIMS = (96, 256)


def _golden_kernels() -> dict[str, KernelSpec]:
    """File name -> kernel: the one of each kind with the most features, so that the texts show all of them."""
    out: dict[str, tuple[int, KernelSpec]] = {}
    for arch in ARCHS:
        for family in FAMILIES:
            for kernel in family_kernels(load_arch(arch), family):
                if kernel.signature.hdim not in HDIMS:
                    continue
                name, rank = f"{family.value}-{arch}-d{kernel.signature.hdim}.cu", _rank(kernel)
                best = out.get(name)
                if best is None or rank > best[0] or (rank == best[0] and kernel.digest > best[1].digest):
                    out[name] = rank, kernel
    return {name: kernel for name, (_, kernel) in out.items()}


def _rank(kernel: KernelSpec) -> int:
    """The number of features. Every worker that collects tests ranks the kernels, so it must be cheap."""
    parts: tuple[Any, ...] = (kernel.signature, kernel.algorithm)
    return sum(
        getattr(part, name) not in (default, "no", "none", "any")
        for part in parts
        for name, default in _fields(part.__class__)
    )


@cache
def _fields(part: type[Any]) -> tuple[tuple[str, object], ...]:
    return tuple((f.name, f.default) for f in fields(part))


KERNELS = _golden_kernels()
GOLDEN = Golden(
    folder="flash_attn",
    emit=emit,
    block_of=lambda kernel: instance_of(kernel).block,
    symbol_of=lambda kernel: SYMBOL,
    kernels=KERNELS,
    update="PYTHONPATH=tests python tests/codegen/flash_attn/fa_golden.py",
)

if __name__ == "__main__":
    GOLDEN.write()
