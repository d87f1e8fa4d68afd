"""C++ that the emulators of all vendors share: findings and counts as JSON, the books about device memory, random order.

The names of the files begin with ``emu_``, so they do not collide with an emulator's own.
"""

from __future__ import annotations

from importlib import resources


def emulation_files() -> dict[str, str]:
    """Texts by file name: headers, and translation units each of which includes headers by these names."""
    folder = resources.files("fmha_cli.backends.gpu.emulation")
    return {f.name: f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".hpp", ".cpp"))}
