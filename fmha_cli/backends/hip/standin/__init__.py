"""A replacement for the HIP runtime: one text of the host API, and a sink that decides the effect of each launch."""

from __future__ import annotations

from importlib import resources


def hip_host_files() -> dict[str, str]:
    """Texts by file name: headers, and translation units each of which includes headers by these names."""
    folder = resources.files("fmha_cli.backends.hip.standin")
    return {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
