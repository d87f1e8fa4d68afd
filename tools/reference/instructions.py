"""``instructions.md``: the emulated devices, what they report, and the instructions that they execute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fmha_cli.domain.emulation import Finding, FindingKind
from fmha_cli.domain.quantities import size
from fmha_cli.run.checks import hazards

from .docstrings import member_texts
from .installation import ROOT, registry
from .markdown import anchor, code, page, plain, section, table
from .opcodes import instructions, purpose

AMD, NVIDIA = (ROOT / f"plugins/fmha-{kind}-emu/src/fmha_{kind}_emu/core" for kind in ("amdgpu", "nvptx"))


def pages() -> dict[str, str]:
    """The page of emulated devices."""
    amd = {file: found for file in sorted(AMD.glob("*.cpp")) if (found := instructions(file))}
    nvidia = {file: found for file in sorted(NVIDIA.glob("op_*.cpp")) if (found := instructions(file))}
    calls = {file: found for file in sorted(NVIDIA.glob("driver_*.cpp")) if (found := instructions(file))}
    about = (
        "`--device emu:ARCH` executes a kernel on the processor, instruction by instruction. An instruction that is not here "
        "ends the row with an error that names it. [Emulation](../explanation/emulation.md) says what such a run proves."
    )
    return {
        "instructions.md": page(
            "Emulated devices and instructions",
            about,
            section("Devices", _devices()),
            section("Findings", _findings()),
            section("AMD instructions", _count(amd), *(_names(file, found) for file, found in amd.items())),
            section("NVIDIA instructions", _ptx(nvidia)),
            section("CUDA driver functions", *(_names(file, found) for file, found in calls.items())),
        )
    }


def _devices() -> str:
    rows = (
        (
            code(device.id),
            ", ".join(f"[`{arch}`](architectures.md#{anchor(arch)})" for arch in device.archs),
            plain(device.name),
            str(device.units),
            size(device.llc_bytes) if device.llc_bytes else "",
            code(f"plugins/fmha-{name}"),
        )
        for name, emulator in registry().emulators.items()
        for device in emulator.devices()
    )
    return table(("device", "architecture", "name", "units", "last-level cache", "from"), rows)


def _findings() -> str:
    texts = member_texts(FindingKind)
    rows = (
        (code(kind.value), plain(texts[kind.name]), code(next(verdict for verdict, _ in hazards([_example(kind)]))))
        for kind in FindingKind
    )
    return table(("kind", "meaning", "verdict"), rows)


def _example(kind: FindingKind) -> Finding:
    return Finding(kind=kind, kernel="", instruction="", address=0, text="")


def _count(found: dict[Path, dict[str, str]]) -> str:
    return (
        f"{sum(map(len, found.values())):,} names, without the suffixes of encodings (`_e32`, `_e64`, `_dpp`, `_sdwa`)."
    )


def _names(file: Path, found: dict[str, str]) -> str:
    names = ", ".join(code(name) for name in sorted(found))
    return section(file.stem, plain(purpose(file)), names + ".", level=3)


def _ptx(found: dict[Path, dict[str, str]]) -> str:
    return table(("opcode", "section of the PTX ISA", "kind"), _opcodes(found))


def _opcodes(found: dict[Path, dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    for file, opcodes in found.items():
        for name, where in sorted(opcodes.items()):
            yield code(name), where, plain(purpose(file)).rstrip(".")
