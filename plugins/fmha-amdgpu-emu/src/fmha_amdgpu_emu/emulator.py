"""The emulator as ``fmha`` sees it. Each method imports what it needs, because listing kernels imports every plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fmha_cli.plugin import (
    Artifact,
    Attached,
    Availability,
    BuildContext,
    DeviceFacts,
    EmulatorOptions,
    Observed,
    State,
    load_arch,
)

INSTALL_HELP = "install LLVM (Debian: apt-get install llvm-22)"


class AmdgpuEmulator:
    """See ``fmha_cli.domain.emulation.Emulator`` for the contract of the methods."""

    name = "amdgpu-emu"
    runtime = "hip"

    def devices(self) -> tuple[DeviceFacts, ...]:
        from fmha_amdgpu_emu.device_facts import device_of, emulated_archs

        return tuple(_facts(arch, device_of(arch).units) for arch in emulated_archs())

    def probe(self) -> Availability:
        from fmha_cli.plugin import llvm_tool

        objdump = llvm_tool("llvm-objdump")
        if objdump is None:
            why = "llvm-objdump, which decodes the instructions, is not on the search path"
            return Availability(state=State.MISSING, why=why, help=INSTALL_HELP)
        return Availability(state=State.OK, devices=self.devices(), version=objdump.name)

    def build(self, device: DeviceFacts, context: BuildContext) -> Artifact:
        from fmha_amdgpu_emu.building import build_emulator

        return build_emulator(context)

    def attach(self, library: Path, device: DeviceFacts, options: EmulatorOptions) -> Attached:
        from fmha_amdgpu_emu.attached import variables
        from fmha_cli.plugin import EmulatorLibrary

        return EmulatorLibrary(library, device, options, variables(device, options))

    def program_environment(
        self, library: Path, device: DeviceFacts, options: EmulatorOptions, report: Path
    ) -> Mapping[str, str]:
        from fmha_amdgpu_emu.attached import variables

        return {
            **variables(device, options),
            "FMHA_EMU_REPORT": str(report),
            "LD_PRELOAD": str(library),
        }

    def read_report(self, text: str) -> Observed:
        from fmha_cli.plugin import read_report

        return read_report(text)


def _facts(arch: str, units: int) -> DeviceFacts:
    spec = load_arch(arch)
    llc = spec.facts.get("llc_bytes", {}).get("value", 0)
    name = f"{spec.title.partition(':')[0]}, emulated"
    return DeviceFacts(id=f"emu:{arch}", archs=(arch,), name=name, units=units, llc_bytes=int(llc))
