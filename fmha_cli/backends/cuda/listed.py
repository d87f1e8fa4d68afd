"""The rules about kernels of an upstream that names each of its kernels: a kernel exists if it is in the list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cache

from fmha_cli.backends.gpu.conditions import KernelCheck, KernelRules, known_arch, refuse
from fmha_cli.backends.gpu.rule_rows import kernel_rules
from fmha_cli.domain.arch import ArchSpec, load_arch
from fmha_cli.domain.encode import field_text
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.rules import Reason, Refusal, Severity

REFUSED = "nvrtc_refuses"
"""The architecture fact that names the version from which on NVRTC refuses the architecture."""


def capability(arch: ArchSpec) -> int:
    """The compute capability of an architecture as one number: 86 for 8.6."""
    major, minor = arch.fact("compute_capability")
    return 10 * int(major) + int(minor)


def listed_rules(
    backend: str, ids: tuple[str, str, str], listed: Callable[[ArchSpec], Iterable[KernelSpec]]
) -> KernelRules:
    """The rules about the kernels of a backend.

    Args:
        ids: of three rules in the backend's table: there are kernels for the architecture (``form``), NVRTC compiles for
            it, and the list has the kernel (which reads ``*``).
        listed: returns the kernels of an architecture, whether or not they can be built.
    """
    no_arch, compiler, unlisted = ids

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
        compiler: refuse(
            lambda k, arch: REFUSED in arch.facts,
            lambda k, arch: f"NVRTC {arch.fact(REFUSED)} does not compile for {k.arch}",
            "a later architecture",
        ),
        unlisted: lambda kernel, arch: _nearest(kernel, kernels_of(kernel.arch)),
    }
    return KernelRules(kernel_rules(backend, checks), facts_of, without)


def _nearest(kernel: KernelSpec, listed: frozenset[KernelSpec]) -> Refusal | None:
    if kernel in listed:
        return None
    nearest = min(listed, key=lambda other: (len(list(_differences(kernel, other))), other.name))
    differences = list(_differences(kernel, nearest))
    have, want = (", ".join(f"{name} {texts[i]}" for name, *texts in differences) for i in (0, 1))
    return Refusal(f"{have}: there is no such kernel", want)


def _differences(kernel: KernelSpec, other: KernelSpec) -> Iterator[tuple[str, str, str]]:
    """The fields in which two kernels differ: name, and the value in each."""
    for mine, theirs in ((kernel, other), (kernel.signature, other.signature), (kernel.algorithm, other.algorithm)):
        for field in fields(mine):
            if field.name not in ("signature", "algorithm"):
                have, want = (field_text(getattr(noun, field.name)) for noun in (mine, theirs))
                if have != want:
                    yield field.name, have, want
