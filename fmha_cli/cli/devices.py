"""``fmha devices``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import BACKEND, ROWS


def devices(call: Call) -> int:
    """Every device of every backend, and why the others have none."""
    from fmha_cli.cli.choosing import probe_backends
    from fmha_cli.report.tools import devices_document

    name = call.settings.text("backend") or "auto"
    registry = call.registry
    backends = registry.backends if name == "auto" else {name: registry.backend(name)}
    call.output.document(devices_document(probe_backends(call, tuple(backends.values()))))
    return 0


COMMAND = Command(devices, options=(BACKEND, *ROWS))
