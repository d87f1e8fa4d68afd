"""The machine on which rows run: its processor, memory, drivers and compilers, as far as no device must be opened."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fmha_cli.domain.codec import to_json
from fmha_cli.domain.encode import digest_of

_COMPILERS = ("g++", "clang++", "c++", "hipcc", "nvcc")


@dataclass(frozen=True, kw_only=True)
class Host:
    """Facts of a machine; it names no user, no folder and no network.

    Attributes:
        processor: model of the processor.
        cores: logical cores of the machine.
        memory_gib: main memory, rounded.
        drivers: kernel driver -> version.
        gpus: models of the NVIDIA devices that the driver lists.
        compilers: name of a program -> name of the file that it stands for, which often holds the version.
    """

    system: str
    machine: str
    processor: str
    cores: int
    memory_gib: int
    drivers: Mapping[str, str]
    gpus: tuple[str, ...]
    compilers: Mapping[str, str]

    @property
    def digest(self) -> str:
        """sha256 over all facts: equal for every run on one machine until a part of it is replaced."""
        return digest_of(to_json(self))

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.processor}, {self.cores} cores, {self.memory_gib} GiB"


def this_host(root: Path = Path("/")) -> Host:
    """The machine that runs this process.

    Args:
        root: where the folders ``proc`` and ``sys`` are.
    """
    cpu = re.search(r"^(?:model name|Model)\s*: (.*)$", _text(root / "proc" / "cpuinfo"), re.M)
    pages, size = (os.sysconf(name) for name in ("SC_PHYS_PAGES", "SC_PAGE_SIZE"))
    cards = sorted((root / "proc" / "driver" / "nvidia" / "gpus").glob("*/information"))
    models = (re.search(r"^Model:\s*(.*)$", _text(card), re.M) for card in cards)
    found = {name: shutil.which(name) for name in _COMPILERS}
    return Host(
        system=platform.system(),
        machine=platform.machine(),
        processor=cpu[1].strip() if cpu else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=round(pages * size / 2**30),
        drivers=_drivers(root),
        gpus=tuple(model[1].strip() for model in models if model),
        compilers={name: os.path.basename(os.path.realpath(path)) for name, path in found.items() if path},
    )


def _drivers(root: Path) -> dict[str, str]:
    """The versions of the loaded drivers of graphics cards."""
    names = ("nvidia", "amdgpu")
    found = {name: _text(root / "sys" / "module" / name / "version").strip() for name in names}
    return {name: version for name, version in found.items() if version}


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
