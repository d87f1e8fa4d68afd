"""Which table a document becomes: schema name -> view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fmha_cli.report.kernel_views import error_view, explain_view, inspect_view, kernels_view, plan_view
from fmha_cli.report.records_view import records_view
from fmha_cli.report.table import Table

Document = Mapping[str, Any]


def document_name(document: Document) -> str:
    """``report`` of ``fmha.report/1``: the name of its schema."""
    return str(document["schema"]).removeprefix("fmha.").partition("/")[0]


def view(document: Document, color: bool = False) -> Table:
    """The table of any document."""
    name = document_name(document)
    if name == "report":
        return records_view(document["records"], color)
    return _VIEWS[name](document)


_VIEWS: Mapping[str, Callable[[Document], Table]] = MappingProxyType(
    {
        "error": error_view,
        "explain": explain_view,
        "inspect": inspect_view,
        "kernels": kernels_view,
        "plan": plan_view,
    }
)
