"""``fmha devices``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import BACKEND, ROWS


def devices(call: Call) -> int:
    """Every device of every backend, and why the others have none."""
    from fmha_cli.cli.choosing import found_by
    from fmha_cli.report.tools import devices_document
    from fmha_cli.select import Wanted

    wanted = Wanted(backend=call.settings.text("backend") or "auto")
    call.output.document(devices_document(found_by(call, wanted)))
    return 0


COMMAND = Command(devices, options=(BACKEND, *ROWS))
