"""A long list of kernels in groups, for a terminal: how many there are of each family and type, and how to see fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fmha_cli.domain.kernel import KernelSpec
from fmha_cli.report.column import Column, Fit
from fmha_cli.report.documents.kernels import count_text
from fmha_cli.report.table import Table

MANY = 100
"""More kernels than these are shown to a terminal in groups."""

_COLUMNS = (
    Column("backend", common="{}".format, rank=1),
    Column("family", common="{}".format),
    Column("dtype", common="{}".format),
    Column("head dims", fit=Fit.FOLD, least=20),
    Column("archs", number=True, rank=2),
    Column("kernels", number=True),
)


def grouped(arch: str | None, kernels: Iterable[KernelSpec]) -> dict[str, Any]:
    """How many kernels have the same backend, family, input type, head dim and architecture."""
    counts = Counter((k.backend, k.family, k.signature.dtype, k.signature.hdim, k.arch) for k in kernels)
    groups = [
        {"backend": backend, "family": str(family), "dtype": str(dtype), "hdim": hdim, "arch": own, "count": count}
        for (backend, family, dtype, hdim, own), count in counts.items()
    ]
    return {"arch": arch, "count": counts.total(), "groups": groups}


def groups_view(found: Mapping[str, Any]) -> Table:
    """One line for each backend, family and type."""
    lines: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for group in found["groups"]:
        lines.setdefault((group["backend"], group["family"], group["dtype"]), []).append(group)
    rows = []
    for names, groups in lines.items():
        hdims = " ".join(map(str, sorted({group["hdim"] for group in groups})))
        archs = "" if found["arch"] else str(len({group["arch"] for group in groups}))
        rows.append([*names, hdims, archs, str(sum(group["count"] for group in groups))])
    details = [f"to narrow: {_narrower(found)}", "single kernels: --limit N for the first N, --wide for all"]
    return Table(_COLUMNS, rows, count_text(found), details)


def _narrower(found: Mapping[str, Any]) -> str:
    """Options that choose the largest group, as an example."""
    most = max(found["groups"], key=lambda group: group["count"])
    flags = {"arch": "--arch ", "family": "--family ", "dtype": "--dtype ", "hdim": "--filter hdim:"}
    terms = [f"{flag}{most[key]}" for key, flag in flags.items() if len({g[key] for g in found["groups"]}) > 1]
    return " ".join(terms) or "--filter KEY:GLOB"
