"""The ``environment`` block: what ran on which system. It reads the results of probes and starts none itself."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from fmha_cli import __version__
from fmha_cli.domain.codec import to_json
from fmha_cli.domain.device import Availability
from fmha_cli.report.parts import Environment, backend_rows, device_rows


def environment(backends: Mapping[str, Availability]) -> dict[str, Any]:
    """Versions, platform, and the reply of every backend that was asked, by backend name."""
    return to_json(
        Environment(
            fmha=__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            devices=device_rows(backends),
            backends=backend_rows(backends),
        )
    )
