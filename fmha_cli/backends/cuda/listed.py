"""The rules of a backend whose catalogue names every kernel: a kernel exists if it is listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from operator import ne
from types import MappingProxyType
from typing import Any

from fmha_cli.backends.gpu.conditions import KernelCheck, KernelRules, known_arch
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Severity

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
    def kernels_of(arch: str) -> Mapping[KernelSpec, Mapping[str, Any]]:
        """Each kernel's fields, in the order of the names: of several that differ as little, the first is named."""
        return {kernel: _values(kernel) for kernel in sorted(listed(load_arch(arch)), key=lambda kernel: kernel.name)}

    def facts_of(name: str) -> ArchSpec | None:
        arch = known_arch(name)
        return arch if arch is not None and backend in arch.backends else None

    def without(kernel: KernelSpec) -> Reason:
        return Reason(no_arch, f"{backend} has no kernels for {kernel.arch}", "fmha archs", Severity.PLACE)

    checks: dict[str, KernelCheck] = {
        no_arch: lambda kernel, arch: None,  # ``KernelRules`` refuses the architecture, before any rule reads its facts
        **more,
        unlisted: lambda kernel, arch: _nearest(kernel, kernels_of(kernel.arch)),
    }
    return KernelRules(kernel_rules(backend, checks), facts_of, without)


def _nearest(kernel: KernelSpec, listed: Mapping[KernelSpec, Mapping[str, Any]]) -> Refusal | None:
    if kernel in listed:
        return None
    mine = _values(kernel)
    wanted = tuple(mine.values())
    theirs = min(listed.values(), key=lambda values: sum(map(ne, wanted, values.values())))
    off = [name for name, value in mine.items() if value != theirs[name]]
    have, want = (", ".join(f"{name} {field_text(values[name])}" for name in off) for values in (mine, theirs))
    return Refusal(f"{have}: there is no such kernel", want)


def _values(kernel: KernelSpec) -> Mapping[str, Any]:
    """The fields of a kernel, of its signature and of its algorithm, in their order."""
    parts = (kernel, kernel.signature, kernel.algorithm)
    values = {field.name: getattr(part, field.name) for part in parts for field in fields(part)}
    return {name: value for name, value in values.items() if name not in ("signature", "algorithm")}
