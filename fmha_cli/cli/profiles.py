"""``fmha profiles``."""

from __future__ import annotations

from fmha_cli.cli.call import Call
from fmha_cli.cli.command import Command
from fmha_cli.cli.options import ROWS


def profiles(call: Call) -> None:
    """The named sets of kernels that ``--profile`` takes."""
    from fmha_cli.discovery import profiles as domain
    from fmha_cli.domain.codec import taken_from, to_json
    from fmha_cli.report.documents.installation import ProfileRow, Profiles

    rows = (taken_from(profile, ProfileRow, archs=(), kernels=None) for profile in domain.profiles())
    call.output.document(to_json(Profiles(profiles=tuple(rows))))


COMMAND = Command(profiles, options=ROWS)
