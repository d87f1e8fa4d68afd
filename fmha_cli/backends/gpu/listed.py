"""The rules of a backend whose catalogue names every kernel: a kernel exists if it is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType

from fmha_cli.backends.gpu.conditions import KernelCheck, KernelRules, known_arch
from fmha_cli.backends.gpu.nearest import find_nearest
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Severity

_NO_MORE: Mapping[str, KernelCheck] = MappingProxyType({})


def listed_rules(
    backend: str,
    no_arch: str,
    unlisted: str,
    listed: Callable[[ArchSpec], Iterable[KernelSpec]],
    more: Mapping[str, KernelCheck] = _NO_MORE,
) -> KernelRules:
    """The rules about the kernels of a backend.

    Args:
        no_arch: the id of the rule in the backend's table that there are kernels for the architecture (``form``).
        unlisted: the id of the rule that the list has the kernel. It names the listed kernel that differs least.
        listed: returns the kernels of an architecture, whether or not they can be built.
        more: further rules, by id.
    """

    @cache
    def kernels_of(arch: str) -> frozenset[KernelSpec]:
        return frozenset(listed(load_arch(arch)))

    def facts_of(name: str) -> ArchSpec | None:
        arch = known_arch(name)
        return arch if arch is not None and backend in arch.backends else None

    def without(kernel: KernelSpec) -> Reason:
        return Reason(no_arch, f"{backend} has no kernels for {kernel.arch}", "fmha archs", Severity.PLACE)

    checks: dict[str, KernelCheck] = {
        no_arch: lambda kernel, arch: None,  # ``KernelRules`` refuses the architecture, before any rule reads its facts
        **more,
        unlisted: lambda kernel, arch: find_nearest(kernel, kernels_of(kernel.arch)),
    }
    return KernelRules(kernel_rules(backend, checks), facts_of, without)
