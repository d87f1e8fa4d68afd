"""The kernels of an architecture: the ones that upstream generates for its compute capability, in upstream's order.

Source: ``generate_kernels.py`` of xformers 0.0.28.post3. torch 2.13.0 has the same kernels and takes them on later
devices too.
"""

from __future__ import annotations

from functools import lru_cache

from fmha_cli.backends.cuda.capability import REFUSED, capability
from fmha_cli.codegen.mem_efficient.algorithm import NAME
from fmha_cli.codegen.mem_efficient.traits import FAMILIES, Traits, document, kernels_of
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.signature import BiasKey, CacheKey, MaskKey, ModeKey, Need, Signature

WIDEST = "pytorch"
"""The profile of the most devices. The other one holds a part of its kernels."""


def kernels(arch: ArchSpec) -> tuple[KernelSpec, ...]:
    """The kernels of an architecture that can be built."""
    return () if REFUSED in arch.facts else profile_kernels(arch, WIDEST)


def profile_kernels(arch: ArchSpec, profile: str) -> tuple[KernelSpec, ...]:
    """The kernels that a project generates for an architecture, whether or not they can be built. There may be none."""
    return _make_kernels(arch.name, capability(arch), profile) if NAME in arch.backends else ()


@lru_cache(maxsize=64)
def _make_kernels(arch: str, cc: int, profile: str) -> tuple[KernelSpec, ...]:
    tags = next(row["tags"] for row in document()["profiles"] if row["name"] == profile)
    taken = [int(tag) for tag, (first, last) in tags.items() if first <= cc <= last]
    return tuple(
        KernelSpec(backend=NAME, family=family, arch=arch, signature=_signature(traits), algorithm=traits.algorithm)
        for family in FAMILIES
        for traits in kernels_of(family)
        if traits.algorithm.tag in taken
    )


def _signature(traits: Traits) -> Signature:
    """The compiled-in limits: the largest head dims, and in kernels of even lengths a batch. A launch chooses the rest."""
    return Signature(
        dtype=traits.dtype,
        dtype_out=traits.dtype,
        hdim=traits.algorithm.max_k,
        hdim_v=traits.algorithm.max_k,
        mode=ModeKey.BATCH if traits.algorithm.seq_aligned else ModeKey.ANY,
        mask=MaskKey.ANY,
        bias=BiasKey.ANY,
        dropout=Need.ANY if traits.drops else Need.NO,
        lse=Need.ANY,
        gqa=Need.ANY,
        cache=CacheKey.ANY if traits.forward else CacheKey.NONE,
        deterministic=Need.ANY,
        dbias=Need.NO if traits.forward else Need.ANY,
    )
