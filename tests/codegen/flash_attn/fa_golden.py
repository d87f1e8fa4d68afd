"""Golden texts of the FlashAttention emitter: one kernel per family, two head dims, three architectures.

The tiles of the architectures differ. A file holds the parts that are specific to the kernel: names, headers, traits,
the kernel, its facts. The digest of the whole text pins the tables of the parameter blocks.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import cache
from pathlib import Path

from fmha_cli.backends.flash_attn.catalogue import FAMILIES, family_kernels
from fmha_cli.codegen.flash_attn.emit import emit
from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.kernel import KernelSpec

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "flash_attn"
ARCHS = ("sm_80", "sm_86", "sm_90")
HDIMS = (96, 256)
DIGESTS = "digests.json"


@cache
def golden_kernels() -> dict[str, KernelSpec]:
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


def own_text(kernel: KernelSpec) -> str:
    """The text without the tables of the parameter block."""
    kept = [line for line in emit(kernel).splitlines() if "FMHA_FIELD(" not in line and "_abi_names" not in line]
    return "\n".join(line for line in kept if "_abi_table" not in line) + "\n"


def digests() -> dict[str, str]:
    """File name -> sha256 of the whole text."""
    return {name: hashlib.sha256(emit(kernel).encode()).hexdigest() for name, kernel in golden_kernels().items()}
