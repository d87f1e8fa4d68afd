"""Maps the template-ids in upstream's launch code to FlashAttention kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from fmha_cli.backends.flash_attn.catalogue import kernels
from fmha_cli.backends.flash_attn.upstream import UPSTREAM
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.kernel import KernelSpec


def kernel_of_template(text: str, arch: ArchSpec) -> KernelSpec:
    """The kernel of an architecture that a template-id names; the inverse of ``UPSTREAM.template``.

    Spaces and a namespace before the kernel's name are ignored.

    Raises:
        KeyError: upstream's launch code does not instantiate such a kernel for the architecture.
    """
    return _by_template(arch.name)[_bare(text)]


@lru_cache(maxsize=16)
def _by_template(arch: str) -> Mapping[str, KernelSpec]:
    return MappingProxyType({_bare(UPSTREAM.template(kernel)): kernel for kernel in kernels(load_arch(arch))})


def _bare(text: str) -> str:
    head, _, arguments = "".join(text.split()).partition("<")
    return f"{head.rpartition('::')[2]}<{arguments}"
