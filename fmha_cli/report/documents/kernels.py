"""``fmha.kernels/1``: kernels, and whether each can be built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fmha_cli.domain.codec import shared_json, to_json
from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.domain.members import Count, ShownAs
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
    kernels: Annotated[tuple[Mapping[str, Any], ...], ShownAs(tuple[ListedKernel, ...])]


def kernel_entry(
    kernel: KernelSpec, upstream_name: str | None = None, reasons: Sequence[Reason] = ()
) -> dict[str, Any]:
    """The JSON form of a ``ListedKernel``; ``reasons`` say why it is not buildable, without any it is.

    Kernels with the same signature or algorithm share its JSON.
    """
    return {
        "name": kernel.name,
        "digest": kernel.digest,
        "family": str(kernel.family),
        "signature": shared_json(kernel.signature),
        "algorithm": shared_json(kernel.algorithm),
        "upstream_name": upstream_name,
        "backend": kernel.backend,
        "buildable": not reasons,
        "reasons": [to_json(reason) for reason in reasons],
    }


def kernels_document(arch: str | None, kernels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The document of the entries of one architecture."""
    rows = tuple(kernels)
    return to_json(Kernels(arch=arch, count=len(rows), kernels=rows))


def kernels_view(document: Mapping[str, Any]) -> Table:
    """One line for each kernel, with a column for each part of the signature in which the kernels differ."""
    kernels = document["kernels"]
    signatures = {id(signature): signature for signature in (kernel["signature"] for kernel in kernels)}
    apart, same = _differing(list(signatures.values()))
    shown = [*_ALWAYS, *(name for name in apart if name not in _ALWAYS)]
    cells = {key: [cell(signature[name]) for name in shown] for key, signature in signatures.items()}
    words: dict[int, str] = {}
    rows = []
    for kernel in kernels:
        _, _, arch, parts = kernel["name"].split(":", 3)
        if id(kernel["algorithm"]) not in words:
            words[id(kernel["algorithm"])] = parts.partition(":")[2].replace(",", " ")
        algorithm = words[id(kernel["algorithm"])]
        built = "" if kernel["buildable"] else "no: " + " ".join(r["id"] for r in kernel["reasons"])
        facts = cells[id(kernel["signature"])]
        parts = [kernel["digest"][:SHORT], "" if document["arch"] else arch, kernel["backend"], kernel["family"]]
        rows.append([*parts, *facts, algorithm, kernel["upstream_name"] or "", built])
    alike = " ".join(
        f"{name}={cell(value)}" for name, value in same.items() if name not in _ALWAYS and value not in _OFF
    )
    details = [f"in all of them: {alike}"] if alike and kernels else []
    return Table(_columns(shown), rows, count_text(document), details)


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


def count_text(document: Mapping[str, Any]) -> str:
    """``12 kernels for gfx942``."""
    where = f" for {document['arch']}" if document["arch"] else ""
    return f"{counted(document['count'], 'kernel')}{where}"


_OFF = ("no", "none", 0)


def _differing(signatures: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """Names of the members that differ between kernels, and the other members with their common value."""
    first = signatures[0] if signatures else {}
    apart = [name for name in first if any(other[name] != first[name] for other in signatures)]
    return apart, {name: value for name, value in first.items() if name not in apart}


DOCUMENTS = (Document(Kernels, kernels_view, rows="kernels", columns=_columns(_ALWAYS)),)
