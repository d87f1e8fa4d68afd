"""Parts of ``backends.md`` about the kernels of each backend: how many there are, releases of libraries, suites of upstream's programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from fmha_cli.domain.arch import ArchSpec
from fmha_cli.domain.counterpart import Comparable
from fmha_cli.domain.errors import EmptySelection
from fmha_cli.domain.protocols import Backend, Catalogued, Revised
from fmha_cli.parity.suite import load_suite
from fmha_cli.toolchain.framework import check_release

from .installation import STAND_INS, registry
from .markdown import code, plain, table


def backends() -> dict[str, Backend]:
    """Every backend that a user may choose, by name."""
    return {name: one for name, one in registry().backends.items() if name not in STAND_INS}


def counted() -> str:
    """How many kernels each backend has, by family; architectures with the same numbers are one row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, backend in backends().items():
        for revision, one in _revisions(backend):
            for arch in backend.archs():
                found = _families(one, registry().arch(arch))
                total = f"{sum(found.values()):,}"
                texts = ", ".join(f"{code(family)} {number:,}" for family, number in found.items())
                rows.setdefault((name + (f", {revision}" if revision else ""), total, texts), []).append(arch)
    lines = ((backend, ", ".join(map(code, archs)), total, texts) for (backend, total, texts), archs in rows.items())
    return table(("backend", "architectures", "kernels", "by family"), lines)


def _revisions(backend: Backend) -> Iterator[tuple[str, Backend]]:
    """The backend at each revision of its source; once without a name, if it has none."""
    if isinstance(backend, Catalogued) and isinstance(backend, Revised):
        yield from ((name, backend.at_revision(name)) for name in backend.revisions())
    else:
        yield "", backend


def _families(backend: Backend, arch: ArchSpec) -> Counter[str]:
    if isinstance(backend, Catalogued) and isinstance(backend, Revised):
        try:
            return Counter(kernel.family.value for kernel in backend.catalogue(arch, None, backend.revision))
        except EmptySelection:
            return Counter()
    return Counter(kernel.family.value for kernel in backend.kernels(arch))


def releases() -> str:
    """The releases of libraries with which the rules of their backends were compared."""
    rows = []
    for name, backend in backends().items():
        for check in getattr(backend, "checkers", tuple)():
            if isinstance(check, partial) and check.func is check_release:
                library, tried = check.args
                rows.append((code(name), code(library), ", ".join(tried)))
    return table(("backend", "library", "releases with which its rules were compared"), rows)


def suites() -> str:
    """The suites of ``fmha parity``."""
    rows = []
    for name, backend in backends().items():
        if isinstance(backend, Comparable):
            upstream = backend.counterpart()
            for suite in sorted(upstream.suites()):
                found = load_suite(suite, upstream)
                sources = "; ".join(f"{source.file} at {source.revision}" for source in found.sources)
                cases = f"{sum(1 for _ in found.cases()):,}"
                rows.append((code(suite), code(name), plain(found.title), cases, plain(sources)))
    return table(("suite", "backend", "title", "cases", "source"), rows)
