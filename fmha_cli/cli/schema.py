"""``fmha schema NAME``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import DOCUMENT


def schema(call: Call) -> int:
    """Print one schema, or the names of all."""
    from fmha_cli.report.schemas import names, text

    name = call.argument("name")
    if name is not None:
        call.output.text(text(name))
    elif call.settings.on("json"):
        call.output.document({"schema": "fmha.schemas/1", "schemas": list(names())})
    else:
        call.output.text("\n".join(names()))
    return 0


COMMAND = Command(
    schema,
    options=DOCUMENT,
    arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
)
