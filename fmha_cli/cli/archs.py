"""``fmha archs``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Argument, Command
from fmha_cli.cli.options import ROWS


def archs(call: Call) -> None:
    """Every architecture, or one, with its facts."""
    from fmha_cli.report.documents.installation import archs_document

    name = call.argument("arch")
    names = call.registry.arch_names() if name is None else (name,)
    call.output.document(archs_document(call.registry.arch(n) for n in names))


COMMAND = Command(
    archs, options=ROWS, arguments=(Argument("arch", "One architecture; without it, all", complete="archs"),)
)
