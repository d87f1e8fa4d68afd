"""Which table a document becomes: schema name -> view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from fmha_cli.report import kernel_views, tool_views
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
        "archs": tool_views.archs_view,
        "build": tool_views.build_view,
        "cache": tool_views.cache_view,
        "devices": tool_views.devices_view,
        "doctor": tool_views.doctor_view,
        "error": kernel_views.error_view,
        "explain": kernel_views.explain_view,
        "inspect": kernel_views.inspect_view,
        "kernels": kernel_views.kernels_view,
        "plan": kernel_views.plan_view,
        "plugins": tool_views.plugins_view,
        "profiles": tool_views.profiles_view,
        "sources": tool_views.sources_view,
    }
)
