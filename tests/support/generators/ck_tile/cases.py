"""Cases of Composable Kernel's example programs."""

from __future__ import annotations

from collections.abc import Mapping

from fmha_cli.backends.ck_tile.parity.case import DEFAULTS
from fmha_cli.domain.counterpart import Program, UpstreamCase


def ck_case(name: str, program: Program, settings: Mapping[str, str], group: str = "") -> UpstreamCase:
    """A case with the defaults of its program."""
    return UpstreamCase(name, program, settings, group, DEFAULTS[program])
