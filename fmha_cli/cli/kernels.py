"""The selection of kernels that ``list-kernels``, ``build`` and ``inspect`` share."""

from __future__ import annotations

from collections.abc import Iterator

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Opt
from fmha_cli.cli.options import ARCH, BACKEND, FILTER, PROFILE
from fmha_cli.errors import EmptySelection
from fmha_cli.filters import parse_filter
from fmha_cli.flags import Flag, FlagKind
from fmha_cli.kernel import KernelSpec

FAMILY = Opt(
    Flag("family", FlagKind.TEXT, "Globs over the family, like --filter family:GLOB", metavar="GLOB,..."), "Choosing"
)
DTYPE = Opt(
    Flag("dtype", FlagKind.TEXT, "Globs over the input type, like --filter dtype:GLOB", metavar="GLOB,..."), "Choosing"
)
SELECTING = (ARCH, BACKEND, FAMILY, DTYPE, PROFILE, FILTER)


def selected_kernels(call: Call) -> Iterator[KernelSpec]:
    """The kernels that the options select, lazily, in the backends' own order.

    Raises:
        UsageError: an unknown architecture, backend, profile or filter key.
        EmptySelection: nothing is left; names the term that eliminated all.
    """
    settings, registry = call.settings, call.registry
    given = {key: settings.text(key) or "" for key in ("family", "dtype")}
    terms = [f"{key}:{glob}" for key, text in given.items() for glob in text.split(",") if glob]
    profile = settings.text("profile")
    if profile is not None:
        from fmha_cli.profiles import profile_of

        terms = [*profile_of(profile).terms(), *terms]
    filter_ = parse_filter([*terms, *settings.many("filter")], registry.algorithms())
    found = filter_.apply(_kernels(call), lambda kernel: registry.backend(kernel.backend).upstream_name(kernel))
    empty = True
    for kernel in found:
        empty = False
        yield kernel
    if empty:
        where = " ".join(f"--{key} {settings.text(key)}" for key in ("backend", "arch") if settings.text(key))
        raise EmptySelection(
            f"no kernel exists for {where or 'any architecture'}",
            code="F004",
            where=where or None,
            help="`fmha archs` and `fmha plugins` list what there is",
        )


def _kernels(call: Call) -> Iterator[KernelSpec]:
    arch, name = call.settings.text("arch"), call.settings.text("backend") or "auto"
    registry = call.registry
    backends = list(registry.backends.values()) if name == "auto" else [registry.backend(name)]
    for found in registry.arch_names() if arch is None else (registry.arch(arch).name,):
        for backend in backends:
            if found in backend.archs():
                yield from backend.kernels(registry.arch(found))


def named_kernel(call: Call, text: str | None = None) -> KernelSpec:
    """The kernel that ``text`` names (by default the argument ``kernel``), among all backends and ``--arch``.

    Raises:
        UsageError: unknown or ambiguous; no such architecture or backend.
    """
    from fmha_cli.select import find_kernel

    registry, arch, name = call.registry, call.settings.text("arch"), call.settings.text("backend") or "auto"
    backends = list(registry.backends.values()) if name == "auto" else [registry.backend(name)]
    archs = [a for b in backends for a in b.archs()] if arch is None else [registry.arch(arch).name]
    kernel = find_kernel(registry, backends, text or call.argument("kernel"), dict.fromkeys(archs))
    assert kernel is not None  # the argument is required, and an unknown one is a usage error
    return kernel
