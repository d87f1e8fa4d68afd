"""``fmha schema``."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.report.document import names
from fmha_cli.report.documents.pages import Schemas
from fmha_cli.report.schemas import text


def schema(call: CliCall) -> None:
    """Print one schema, or the names of all."""
    name = call.argument("name")
    if name is not None:
        call.output.text(text(name))
    elif call.settings.on("json"):
        call.output.document(Schemas(schemas=names()))
    else:
        call.output.text("\n".join(names()))
