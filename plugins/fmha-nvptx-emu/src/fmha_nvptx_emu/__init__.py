"""Executes PTX on the CPU, as NVIDIA GPUs would. ``device_facts.ARCHS`` lists the devices, ``emu:sm_80`` and so on."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.api import Emulator, hookimpl
from fmha_nvptx_emu.emulator import NvptxEmulator


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (NvptxEmulator(),)
