"""``sources.md``: the pinned third-party sources."""

from __future__ import annotations

from fmha_cli.domain.quantities import size
from fmha_cli.sources.pins import Pin, pins

from .markdown import anchor, code, page, plain, section, table


def pages() -> dict[str, str]:
    """The page of pinned sources."""
    found = pins()
    about = (
        "Kernels of other projects are built from these files of the Python package index. `fmha sources fetch` downloads "
        "them, and a build fetches what it needs. Every file is compared with its digest. `fmha sources` prints this list."
    )
    rows = (
        (
            f"[`{pin.name}`](#{anchor(pin.name)})",
            f"{pin.archive.project} {pin.archive.version}",
            plain(pin.license),
            size(pin.archive.bytes),
            ", ".join(code(name) for name in pin.backends),
            plain(pin.purpose),
        )
        for pin in found.values()
    )
    index = table(("source", "package", "licence", "download", "backends", "for"), rows)
    return {"sources.md": page("Pinned sources", about, index, *(_pin(pin) for pin in found.values()))}


def _pin(pin: Pin) -> str:
    rows = [
        ("content", plain(pin.title)),
        ("file", code(pin.archive.file)),
        ("SHA-256 of the file", code(pin.archive.sha256)),
        ("bytes of the file", str(pin.archive.bytes)),
        ("kept", ", ".join(code(part) for part in pin.take)),
        ("files and bytes that are kept", f"{pin.files}, {pin.bytes}"),
        ("digest of what is kept", code(pin.digest)),
        ("licence text", ", ".join(code(name) for name in pin.notice)),
        ("from", plain(pin.source)),
    ]
    return section(pin.name, table(("member", "value"), rows))
