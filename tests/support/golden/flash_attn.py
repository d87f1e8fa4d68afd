"""Golden texts of the FlashAttention emitter: one kernel per family, two head dims, three architectures, whose tiles differ."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from fmha_cli.backends.flash_attn.catalogue import FAMILIES, family_kernels
from fmha_cli.codegen.flash_attn.emit import SYMBOL, emit
from fmha_cli.codegen.flash_attn.instance import instance_of
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec
from tests.support.golden.units import Golden, most_features

ARCHS = ("sm_80", "sm_86", "sm_90")
HDIMS = (96, 256)


def _named() -> Iterator[tuple[str, KernelSpec]]:
    for arch, family in product(ARCHS, FAMILIES):
        for kernel in family_kernels(load_arch(arch), family):
            if kernel.signature.hdim in HDIMS:
                yield f"{family.value}-{arch}-d{kernel.signature.hdim}.cu", kernel


KERNELS = most_features(_named(), ("no", "none", "any"))
GOLDEN = Golden(
    folder="flash_attn",
    emit=emit,
    block_of=lambda kernel: instance_of(kernel).block,
    symbol_of=lambda kernel: SYMBOL,
    kernels=KERNELS,
    update="python -m tests.support.golden.flash_attn",
)

if __name__ == "__main__":
    GOLDEN.write()
