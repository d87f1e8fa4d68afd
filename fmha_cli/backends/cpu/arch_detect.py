"""This machine's CPU, and the CPU architectures that it accepts, best first."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from fmha_cli.domain.arch import load_arch
from fmha_cli.domain.device import DeviceFacts, usable_cores
from fmha_cli.domain.errors import EnvironmentProblem, UsageError
from fmha_cli.domain.processor import cpu_fields, cpu_text, machine_here, processor_of
from fmha_cli.domain.suggest import NameKind, suggest
from fmha_cli.system.machine import kernel_number, memory_bytes

ARCHS = ("x86_64_amx", "x86_64_v4_bf16", "x86_64_v4", "x86_64_v3", "aarch64_bf16", "aarch64", "generic")
"""Architectures with CPU kernels, best first. No machine has those of two instruction sets."""

VARIABLE = "FMHA_CPU_ARCH"
"""The variable that names the architecture for which this processor is taken, to use it as a lesser one."""

_SYSCTL = {"bf16": b"hw.optional.arm.FEAT_BF16"}
"""The macOS name of a flag (Apple, "Determining instruction set characteristics")."""

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def find_accepted(flags: Iterable[str]) -> tuple[str, ...]:
    """Architectures whose required CPU flags are all present, best first; ``generic`` requires none."""
    have = set(flags)
    return tuple(name for name in ARCHS if have.issuperset(load_arch(name).fact("cpu_flags")))


def cpu_flags(machine: str, text: str, system: str = sys.platform) -> frozenset[str]:
    """The features of a processor, as Linux spells them.

    Args:
        machine: the instruction set.
        text: the content of ``/proc/cpuinfo``; empty on systems without it.
        system: ``sys.platform``. On macOS the system reports the features that not every AArch64 processor has.
    """
    fields = cpu_fields(text)
    if machine == "x86_64":
        return frozenset(fields.get("flags", "").split())
    if machine != "aarch64":
        return frozenset()
    if system == "darwin":
        return frozenset({"asimd", *(flag for flag, name in _SYSCTL.items() if kernel_number(name))})
    return frozenset(fields.get("features", "").split())


def detect() -> DeviceFacts:
    """This machine's CPU. Where its features are unknown, only the generic kernels are accepted.

    Raises:
        UsageError, EnvironmentProblem: see :func:`take_for`.
    """
    text = cpu_text()
    flags = cpu_flags(machine_here(), text)
    return DeviceFacts(
        id="cpu",
        archs=take_for(os.environ.get(VARIABLE, ""), flags),
        name=processor_of(text).name,
        units=usable_cores(),
        memory_bytes=memory_bytes(),
        llc_bytes=_last_level_cache(),
    )


def take_for(level: str, flags: Iterable[str]) -> tuple[str, ...]:
    """The architectures that a processor accepts, best first, if it is taken for one of no more than ``level``.

    Args:
        level: the architecture that ``FMHA_CPU_ARCH`` names; empty: all that the processor has. flags: the processor's
            features.

    Raises:
        UsageError: E005, no architecture of CPU kernels.
        EnvironmentProblem: K116, the processor lacks a feature that the architecture requires. Its kernels could be
            compiled here, not executed.
    """
    have = frozenset(flags)
    if not level:
        return find_accepted(have)
    if level not in ARCHS:
        help = suggest(level, ARCHS, NameKind.ARCH, f"one of {', '.join(ARCHS)}")
        raise UsageError(f"{VARIABLE}={level}: no CPU architecture", code="E005", where=VARIABLE, help=help)
    needed = frozenset(load_arch(level).fact("cpu_flags"))
    if not needed <= have:
        raise EnvironmentProblem(
            f"{VARIABLE}={level}: this processor executes no such kernels",
            code="K116",
            where=VARIABLE,
            why=f"it lacks {', '.join(sorted(needed - have))}",
            help=f"one of {', '.join(find_accepted(have))}; `fmha build --arch {level}` compiles kernels without running them",
        )
    return find_accepted(needed)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


def _last_level_cache() -> int:
    """Bytes of the largest cache of the first processor; 0 = unknown."""
    sizes = [_read(path).strip() for path in _CACHES.glob("index*/size")]
    units = {"K": 1 << 10, "M": 1 << 20}
    return max((int(s[:-1]) * units[s[-1]] for s in sizes if s[-1:] in units and s[:-1].isdigit()), default=0)
