"""Golden texts of the FlashAttention emitter: one kernel per family, two head dims, three architectures, whose tiles differ."""

from __future__ import annotations

from dataclasses import fields

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
    out: dict[str, KernelSpec] = {}
    for arch in ARCHS:
        for family in FAMILIES:
            for kernel in family_kernels(load_arch(arch), family):
                name = f"{family.value}-{arch}-d{kernel.signature.hdim}.cu"
                chosen = kernel.signature.hdim in HDIMS
                if chosen and (name not in out or _rank(kernel) > _rank(out[name])):
                    out[name] = kernel
    return out


def _rank(kernel: KernelSpec) -> tuple[int, str]:
    parts = (kernel.signature, kernel.algorithm)
    made = sum(getattr(part, f.name) not in (f.default, "no", "none", "any") for part in parts for f in fields(part))
    return made, kernel.digest


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
