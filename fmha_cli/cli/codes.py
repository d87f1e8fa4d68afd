"""The pages of error codes, kept as data beside this module: code -> (what it means, what to do)."""

from __future__ import annotations

import json
from importlib import resources


def pages() -> dict[str, tuple[str, str]]:
    """Every error code with its two lines. Rules of backends have their pages in the rules themselves."""
    data = json.loads(resources.files("fmha_cli.cli").joinpath("codes.json").read_text("utf-8"))
    return {code: (text, help) for code, (text, help) in data.items()}
