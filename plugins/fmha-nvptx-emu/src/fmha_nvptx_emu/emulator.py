"""The emulator as ``fmha`` sees it. Each method imports what it needs, because listing kernels imports every plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fmha_cli.plugin import (
    Arithmetic,
    Artifact,
    Attached,
    Availability,
    BuildContext,
    DeviceFacts,
    EmulatorOptions,
    Observed,
    State,
)


class NvptxEmulator:
    """See ``fmha_cli.domain.emulation.Emulator`` for the contract of the methods."""

    name = "nvptx-emu"
    runtime = "cuda"
    arithmetics = (Arithmetic.DOCUMENT, Arithmetic.HARDWARE)

    def devices(self) -> tuple[DeviceFacts, ...]:
        from fmha_nvptx_emu.device_facts import ARCHS

        return tuple(_facts(arch) for arch in ARCHS)

    def probe(self) -> Availability:
        return Availability(state=State.OK, devices=self.devices(), version="PTX")

    def build(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        from fmha_nvptx_emu.building import build_emulator

        return build_emulator(context)

    def attach(self, library: Path, device: DeviceFacts, options: EmulatorOptions) -> Attached:
        from fmha_cli.plugin import EmulatorLibrary, variables_of

        return EmulatorLibrary(library, device, options, variables_of(device, options))

    def program_environment(
        self, library: Path, device: DeviceFacts, options: EmulatorOptions, report: Path
    ) -> Mapping[str, str]:
        from fmha_cli.plugin import variables_of

        return {**variables_of(device, options), "FMHA_EMU_REPORT": str(report), "LD_PRELOAD": str(library)}

    def read_report(self, text: str) -> Observed:
        from fmha_cli.plugin import read_report

        return read_report(text)


def _facts(arch: str) -> DeviceFacts:
    """A device runs the PTX of its own architecture (with the suffix ``a`` too, where ``SUFFIXED`` says so) and of lower ones
    with the same major number, as it runs cubins. ``emu:sm_90`` refuses instructions that only ``sm_90a`` has, as a
    device of a later architecture would."""
    from fmha_cli.plugin import archs_of
    from fmha_nvptx_emu.device_facts import ARCHS, SUFFIXED, device_of

    row = device_of(arch)
    own = (
        name
        for name in archs_of((row.major, row.minor), ARCHS)
        if name == arch or (name in ARCHS and not name.endswith("a"))
    )
    runs = (*own, *SUFFIXED.get(arch, ()))
    name = f"{row.title}, emulated"
    return DeviceFacts(id=f"emu:{arch}", archs=runs, name=name, units=row.units, llc_bytes=row.l2_bytes)
