"""AMD GPUs emulated instruction by instruction: the devices ``emu:gfx90a``, ``emu:gfx942``, ``emu:gfx950``, ``emu:gfx1100``, ``emu:gfx1201``."""

from __future__ import annotations

from collections.abc import Sequence

from fmha_amdgpu_emu.emulator import AmdgpuEmulator
from fmha_cli.api import Emulator, hookimpl


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (AmdgpuEmulator(),)
