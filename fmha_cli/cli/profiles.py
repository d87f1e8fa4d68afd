"""``fmha profiles``."""

from __future__ import annotations

from fmha_cli.cli.call import CliCall
from fmha_cli.discovery.profiles import profiles as every_profile
from fmha_cli.domain.codec import taken_from
from fmha_cli.report.documents.installation import (
    ProfileRow,
    Profiles,
)


def profiles(call: CliCall) -> None:
    """The named sets of kernels that ``--profile`` takes."""
    rows = (taken_from(profile, ProfileRow, archs=(), kernels=None) for profile in every_profile())
    call.output.document(Profiles(profiles=tuple(rows)))
