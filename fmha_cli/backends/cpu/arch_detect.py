"""This machine's CPU, and the CPU architectures that it accepts, best first."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts, usable_cores
from fmha_cli.domain.processor import cpu_fields, cpu_text, processor_of

ARCHS = ("x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "generic")
"""Architectures with CPU kernels, best first."""

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def accepted(flags: Iterable[str]) -> tuple[str, ...]:
    """Architectures whose required CPU flags are all present, best first; ``generic`` requires none."""
    have = set(flags)
    return tuple(name for name in ARCHS if have.issuperset(load_arch(name).fact("cpu_flags")))


def detect() -> DeviceFacts:
    """This machine's CPU. Without ``/proc/cpuinfo`` (not Linux) only the generic kernels are accepted."""
    text = cpu_text()
    flags = cpu_fields(text).get("flags", "").split()
    on_x86 = platform.machine().lower() in ("x86_64", "amd64")
    return DeviceFacts(
        id="cpu",
        archs=accepted(flags if on_x86 else ()),
        name=processor_of(text).name,
        units=usable_cores(),
        memory_bytes=_memory(),
        llc_bytes=_last_level_cache(),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


def _last_level_cache() -> int:
    """Bytes of the largest cache of the first processor; 0 = unknown."""
    sizes = [_read(path).strip() for path in _CACHES.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units and s[:-1].isdigit()), default=0)
