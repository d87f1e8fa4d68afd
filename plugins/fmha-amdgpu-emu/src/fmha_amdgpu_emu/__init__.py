"""Emulates AMD GPUs instruction by instruction. ``core/arch_traits.hpp`` lists the devices, ``emu:gfx942`` and so on."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_amdgpu_emu.emulator import AmdgpuEmulator
from fmha_cli.api import Emulator, hookimpl


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (AmdgpuEmulator(),)
