"""``fmha schema NAME``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import DOCUMENT


def schema(call: Call) -> None:
    """Print one schema, or the names of all."""
    from fmha_cli.domain.codec import to_json
    from fmha_cli.report.document import names
    from fmha_cli.report.documents.pages import Schemas
    from fmha_cli.report.schemas import text

    name = call.argument("name")
    if name is not None:
        call.output.text(text(name))
    elif call.settings.on("json"):
        call.output.document(to_json(Schemas(schemas=names())))
    else:
        call.output.text("\n".join(names()))


COMMAND = Command(
    schema,
    options=DOCUMENT,
    arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
)
