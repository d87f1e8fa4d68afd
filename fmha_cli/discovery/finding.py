"""The kernel that ``--kernel`` names: a canonical name, an ``upstream_name``, or a prefix of its digest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from fmha_cli.discovery.kernel_index import (
    EVERY,
    KernelTables,
    digest_prefix,
    join_tables,
    make_table,
    places_by_digest,
    places_by_name,
    unknown_kernel,
)
from fmha_cli.discovery.registry import Registry
from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.errors import UsageError
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.protocols import Backend, Refusing, Revised
from fmha_cli.domain.tuning import Varied


def find_kernel(
    registry: Registry, backends: Iterable[Backend], text: str | None, archs: Iterable[str]
) -> KernelSpec | None:
    """The kernel that ``--kernel`` names.

    Raises:
        UsageError: unknown or ambiguous.
    """
    if text is None:
        return None
    if text.count(":") == 4:
        return _by_canonical_name(registry, text)
    matches: dict[str, KernelSpec] = {}
    wanted, backends = list(archs), tuple(backends)
    for backend in backends:
        served = set(backend.archs())
        for arch in filter(served.__contains__, wanted):
            matches.update((kernel.digest, kernel) for kernel in _matching(registry, backend, arch, text))
    matches = matches or _variants_named(registry, backends, wanted, text)
    if len(matches) == 1:
        return next(iter(matches.values()))
    if not matches:
        _keep_digests(registry.tables)
        raise unknown_kernel(text)
    listed = "; ".join(f"{digest[:16]} {kernel.name}" for digest, kernel in sorted(matches.items())[:6])
    raise UsageError(f"--kernel {text}: ambiguous", code="E007", where="--kernel", why=f"it matches {listed}")


def _keep_digests(tables: KernelTables | None) -> None:
    """Keep the table of all digests, for ``refuse_unknown``, once there are tables for all kernels."""
    if tables is None or tables.load(*EVERY) is not None:
        return
    every: list[bytes] = []
    for backend in Registry(entries=tuple).backends.values():
        for tuning in (False, True) if isinstance(backend, Varied) else (False,):
            for arch in backend.archs():
                table = tables.load(_owner(backend, tuning=tuning), arch)
                if table is None:
                    return
                every.append(table)
    tables.keep(*EVERY, join_tables(every))


def _owner(backend: Backend, *, tuning: bool) -> str:
    """The name under which the tables of a backend are kept."""
    owner = f"{backend.name}-{backend.revision}" if isinstance(backend, Revised) else backend.name
    return f"{owner}-tuning" if tuning else owner


def _by_canonical_name(registry: Registry, text: str) -> KernelSpec:
    kernel = registry.parse_kernel(text)
    backend = registry.backend(kernel.backend)
    listed = kernel.arch in backend.archs() and any(
        kernel in kernels for kernels in _offered(backend, registry.arch(kernel.arch))
    )
    if not listed:
        reasons = backend.refusals(kernel) if isinstance(backend, Refusing) else ()
        what = f"--kernel {text}: {backend.name} has no such kernel"
        why = "; ".join(f"{reason.id} {reason.text}" for reason in reasons) or None
        raise UsageError(what, code="E006", where="--kernel", why=why)
    return kernel


def _offered(backend: Backend, arch: ArchSpec) -> Iterator[Iterable[KernelSpec]]:
    """The kernels of an architecture, then those for tuning."""
    yield backend.kernels(arch)
    if isinstance(backend, Varied):
        yield backend.variants(arch)


def _variants_named(
    registry: Registry, backends: Iterable[Backend], archs: Iterable[str], text: str
) -> dict[str, KernelSpec]:
    """The kernels for tuning whose digests begin with a text. They have no upstream."""
    if not digest_prefix(text):
        return {}
    return {
        kernel.digest: kernel
        for backend in backends
        if isinstance(backend, Varied)
        for arch in archs
        if arch in backend.archs()
        for kernel in _matching(registry, backend, arch, text, tuning=True)
    }


def _matching(
    registry: Registry, backend: Backend, arch: str, text: str, *, tuning: bool = False
) -> Iterator[KernelSpec]:
    """The kernels of a backend and architecture that a text names, found by the index where there is one.

    Args:
        tuning: look among the kernels for tuning.
    """
    prefix = digest_prefix(text)
    tables = registry.tables if registry.is_builtin(backend.name) else None  # plugins change without a new version
    spec = registry.arch(arch)
    offered = backend.variants if tuning and isinstance(backend, Varied) else backend.kernels
    kernels = iter(offered(spec))

    def named(kernel: KernelSpec) -> bool:
        return kernel.digest.startswith(prefix) if prefix else backend.upstream_name(kernel) == text

    if tables is None:
        yield from filter(named, kernels)
        return
    owner = _owner(backend, tuning=tuning)
    table = tables.load(owner, arch)
    if table is not None:
        places = places_by_digest(table, prefix) if prefix else places_by_name(table, text)
        there = islice(kernels, max(places, default=-1) + 1)
        found = [kernel for place, kernel in enumerate(there) if place in places and named(kernel)]
        if len(found) == len(places):
            yield from found
            return
        kernels = iter(offered(spec))  # the entry is wrong
    tables.announce()
    every = list(kernels)
    tables.keep(owner, arch, make_table((k.digest, backend.upstream_name(k)) for k in every))
    yield from filter(named, every)
