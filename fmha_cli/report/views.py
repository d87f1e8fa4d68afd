"""Which table a document becomes: schema name -> view. Views are imported when needed; JSON needs none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fmha_cli.report.table import Table

Document = Mapping[str, Any]

_ABOUT_KERNELS = ("error", "explain", "kernels", "plan")
_INSPECTED = ("differences", "inspect", "inspections")


def document_name(document: Document) -> str:
    """``report`` of ``fmha.report/1``: the name of its schema."""
    return str(document["schema"]).removeprefix("fmha.").partition("/")[0]


def view(document: Document, color: bool = False) -> Table:
    """The table of any document; ``color`` is for verdicts."""
    name = document_name(document)
    if name == "report":
        from fmha_cli.report.records_view import records_view

        return records_view(document["records"], color)
    return _views(name)[name](document)


def _views(name: str) -> Mapping[str, Callable[[Document], Table]]:
    if name in _ABOUT_KERNELS:
        from fmha_cli.report import kernel_views

        return kernel_views.VIEWS
    if name in _INSPECTED:
        from fmha_cli.report import inspect_views

        return inspect_views.VIEWS
    if name == "executed":
        from fmha_cli.report import executed

        return executed.VIEWS
    if name == "parity":
        from fmha_cli.report import parity_view

        return parity_view.VIEWS
    from fmha_cli.report import tool_views

    return tool_views.VIEWS
