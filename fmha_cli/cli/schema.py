"""``fmha schema NAME``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import OUTPUT_FILE


def schema(call: Call) -> int:
    """Print one schema, or the names of all."""
    from fmha_cli.report.schemas import names, text

    name = call.argument("name")
    call.output.text("\n".join(names()) if name is None else text(name))
    return 0


COMMAND = Command(
    schema,
    options=(OUTPUT_FILE,),
    arguments=(Argument("name", "Name of the schema; without it, the names are printed", complete="schemas"),),
)
