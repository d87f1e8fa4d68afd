"""The machine on which rows run: its processor, memory, drivers and compilers, as far as no device must be opened."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of
from fmha_cli.domain.processor import Processor, this_processor
from fmha_cli.system.machine import memory_bytes

_COMPILERS = ("g++", "clang++", "c++")

_ACCELERATORS = ("0x03", "0x12")
"""Classes of PCI devices: display controllers, and processing accelerators."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Facts of a machine; it names no user, no folder and no network.

    Attributes:
        cores: logical cores of the machine.
        memory_gib: main memory, rounded.
        accelerators: vendor and device number of each graphics card or accelerator on the PCI bus, with its driver.
        drivers: driver of an accelerator -> version, where the driver states one.
        compilers: name of a program -> name of the file that it stands for, which often holds the version.
    """

    system: str
    machine: str
    processor: Processor
    cores: int
    memory_gib: int
    accelerators: tuple[str, ...]
    drivers: Mapping[str, str]
    compilers: Mapping[str, str]

    @property
    def digest(self) -> str:
        """sha256 over all facts: equal for every run on one machine until a part of it is replaced."""
        return digest_of(to_json(self))

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.processor.text}, {self.cores} cores, {self.memory_gib} GiB"


def this_host(root: Path = Path("/")) -> Host:
    """The machine that runs this process.

    Args:
        root: where the folders ``proc`` and ``sys`` are.
    """
    cards = [_card(place) for place in sorted((root / "sys" / "bus" / "pci" / "devices").glob("*"))]
    versions = {card.driver: _text(root / "sys" / "module" / card.driver / "version").strip() for card in cards if card}
    found = {name: shutil.which(name) for name in _COMPILERS}
    return Host(
        system=platform.system(),
        machine=platform.machine(),
        processor=this_processor(root / "proc" / "cpuinfo"),
        cores=os.cpu_count() or 1,
        memory_gib=round(memory_bytes() / 2**30),
        accelerators=tuple(f"{card.model} {card.driver}" for card in cards if card),
        drivers={name: version for name, version in versions.items() if version},
        compilers={name: os.path.basename(os.path.realpath(path)) for name, path in found.items() if path},
    )


class _Card(NamedTuple):
    model: str
    driver: str


def _card(place: Path) -> _Card | None:
    """The accelerator at a place of the PCI bus; None if another device is there."""
    if not _text(place / "class").startswith(_ACCELERATORS):
        return None
    model = ":".join(_text(place / name).strip() for name in ("vendor", "device"))
    return _Card(model, os.path.basename(os.path.realpath(place / "driver")))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
