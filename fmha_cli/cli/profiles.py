"""``fmha profiles``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import ROWS


def profiles(call: Call) -> int:
    """The named sets of kernels that ``--profile`` takes."""
    from fmha_cli.discovery import profiles as domain
    from fmha_cli.report.documents.profiles import ProfileRow, profiles_document

    rows = [
        ProfileRow(name=p.name, backend=p.backend, title=p.title, aliases=p.aliases, source=p.source)
        for p in domain.profiles()
    ]
    call.output.document(profiles_document(rows))
    return 0


COMMAND = Command(profiles, options=ROWS)
