"""``fmha.kernels/1``: kernels, and whether each can be built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count
from fmha_cli.domain.rules import Reason
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.document import Document
from fmha_cli.report.lines import SHORT, cell, counted
from fmha_cli.report.parts import KernelRow
from fmha_cli.report.table import Table

_ALWAYS = ("dtype", "hdim")
"""Parts of the signature that every table shows."""


@dataclass(frozen=True, kw_only=True)
class ListedKernel(KernelRow):
    """One kernel of ``list-kernels``."""

    backend: str
    buildable: bool
    reasons: Annotated[tuple[Reason, ...], "why it is not buildable"]


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """list-kernels --json."""

    schema: Literal["fmha.kernels/1"] = "fmha.kernels/1"
    arch: str | None
    count: Count
    kernels: tuple[ListedKernel, ...]


def kernel_entry(kernel: KernelSpec, upstream_name: str | None = None, reasons: Sequence[Reason] = ()) -> ListedKernel:
    """One kernel of ``list-kernels``; ``reasons`` say why it is not buildable, without any it is."""
    buildable, why = not reasons, tuple(reasons)
    return ListedKernel.of(kernel, upstream_name, backend=kernel.backend, buildable=buildable, reasons=why)


def kernels_document(arch: str | None, kernels: Iterable[ListedKernel]) -> Kernels:
    """The document of the entries of one architecture."""
    rows = tuple(kernels)
    return Kernels(arch=arch, count=len(rows), kernels=rows)


def kernels_view(document: Kernels) -> Table:
    """One line for each kernel, with a column for each part of the signature in which the kernels differ."""
    kernels = document.kernels
    signatures = {id(kernel.signature): kernel.signature for kernel in kernels}
    apart, same = _differing(list(signatures.values()))
    shown = [*_ALWAYS, *(name for name in apart if name not in _ALWAYS)]
    cells = {key: [cell(signature[name]) for name in shown] for key, signature in signatures.items()}
    words: dict[int, str] = {}
    rows = []
    for kernel in kernels:
        _, _, arch, rest = kernel.name.split(":", 3)
        if id(kernel.algorithm) not in words:
            words[id(kernel.algorithm)] = rest.partition(":")[2].replace(",", " ")
        built = "" if kernel.buildable else "no: " + " ".join(reason.id for reason in kernel.reasons)
        facts = cells[id(kernel.signature)]
        parts = [kernel.digest[:SHORT], "" if document.arch else arch, kernel.backend, kernel.family]
        rows.append([*parts, *facts, words[id(kernel.algorithm)], kernel.upstream_name or "", built])
    alike = " ".join(
        f"{name}={cell(value)}" for name, value in same.items() if name not in _ALWAYS and value not in _OFF
    )
    details = [f"in all of them: {alike}"] if alike and kernels else []
    return Table(_columns(shown), rows, count_text(document.count, document.arch), details)


def _columns(signature: Sequence[str]) -> tuple[Column, ...]:
    facts = (
        Column(name, path=f"signature.{name}", common=f"{name} {{}}".format, rank=0 if name in _ALWAYS else 4 + place)
        for place, name in enumerate(signature)
    )
    return (
        Column("digest", path="digest"),
        Column("arch", common="{}".format),
        Column("backend", path="backend", common="{}".format, rank=1),
        Column("family", path="family", common="{}".format),
        *facts,
        Column("algorithm", common="{}".format, words=True, fit=Fit.END, least=20, rank=2),
        Column("upstream name", path="upstream_name", fit=Fit.MIDDLE, least=24, rank=3),
        Column("buildable", path="buildable"),
    )


def count_text(count: int, arch: str | None) -> str:
    """``12 kernels for gfx942``."""
    return counted(count, "kernel") + (f" for {arch}" if arch else "")


_OFF = ("no", "none", 0)


def _differing(signatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """Names of the members that differ between kernels, and the other members with their common value."""
    first = signatures[0] if signatures else {}
    apart = [name for name in first if any(other[name] != first[name] for other in signatures)]
    return apart, {name: value for name, value in first.items() if name not in apart}


MANY = 100
"""More kernels than these are shown to a terminal in groups."""

_GROUPS = (
    Column("backend", common="{}".format, rank=1),
    Column("family", common="{}".format),
    Column("dtype", common="{}".format),
    Column("head dims", fit=Fit.FOLD, least=20),
    Column("archs", number=True, rank=2),
    Column("kernels", number=True),
)


@dataclass(frozen=True)
class KernelGroup:
    """What kernels of one group have in common."""

    backend: str
    family: str
    dtype: str
    hdim: int
    arch: str


@dataclass(frozen=True)
class KernelGroups:
    """How many kernels each group has; ``arch``: the one that was asked for."""

    arch: str | None
    counts: Mapping[KernelGroup, int]


def grouped(arch: str | None, kernels: Iterable[KernelSpec]) -> KernelGroups:
    """How many kernels have the same backend, family, input type, head dim and architecture."""
    counts = Counter((k.backend, k.family, k.signature.dtype, k.signature.hdim, k.arch) for k in kernels)
    return KernelGroups(arch, {KernelGroup(*group): count for group, count in counts.items()})


def groups_view(found: KernelGroups) -> Table:
    """One line for each backend, family and type."""
    lines: dict[tuple[str, str, str], list[KernelGroup]] = {}
    for group in found.counts:
        lines.setdefault((group.backend, group.family, group.dtype), []).append(group)
    rows = []
    for names, groups in lines.items():
        hdims = " ".join(map(str, sorted({group.hdim for group in groups})))
        archs = "" if found.arch else str(len({group.arch for group in groups}))
        rows.append([*names, hdims, archs, str(sum(found.counts[group] for group in groups))])
    details = [f"to narrow: {_narrower(found.counts)}", "single kernels: --limit N for the first N, --wide for all"]
    return Table(_GROUPS, rows, count_text(sum(found.counts.values()), found.arch), details)


def _narrower(counts: Mapping[KernelGroup, int]) -> str:
    """Options that choose the largest group, as an example."""
    most = max(counts, key=lambda group: counts[group])
    flags = {"arch": "--arch ", "family": "--family ", "dtype": "--dtype ", "hdim": "--filter hdim:"}
    terms = [
        f"{flag}{getattr(most, name)}" for name, flag in flags.items() if len({getattr(g, name) for g in counts}) > 1
    ]
    return " ".join(terms) or "--filter KEY:GLOB"


DOCUMENTS = (Document(Kernels, kernels_view, rows="kernels", columns=_columns(_ALWAYS)),)
