"""Emulates AMD GPUs instruction by instruction. ``core/arch_traits.hpp`` lists the devices, ``emu:gfx942`` and so on.

``docs/explanation/emulation.md`` states what a run proves.

To add an instruction: run the kernel, and the message names the instruction. Add a row to the table of its file (``core/tables.hpp``
lists the tables): the mnemonic as ``llvm-objdump`` prints it without ``_e32``, ``_e64``, ``_dpp``, ``_sdwa``; the handler; the
destinations; the class; how definedness flows; the operands' types; the document's section. Other generations' spellings are rows
with the same handler. Write the handler for 64 lanes: ``map2(w, i, [](uint32_t a, uint32_t b) { return a ^ ~b; })`` reads through
DPP, SDWA and op_sel, and writes the lanes of EXEC. A handler throws ``Unexecutable`` for a form that it cannot
execute. It asks ``ArchTraits`` for a feature, never for an architecture. Test random and special values, lanes off by
EXEC and every architecture against a formula that does not repeat the C++. ``python -m fmha_amdgpu_emu.building``
compiles the changed unit.

To add an architecture: state its facts with their sources in ``arch_specs/gfxNNNN.json`` and ``_amdgpu_occupancy.json``, add a row to
``core/arch_traits.hpp`` that states every trait, and move its name on the page from "Not emulated" to "AMD devices".

Variables of a program that preloads the library: ``FMHA_EMU_ARCH`` the device; ``FMHA_EMU_THREADS`` workgroups at once (1);
``FMHA_EMU_SEED`` the order of waves (0); ``FMHA_EMU_TURN`` instructions before the next wave's turn (0: up to a barrier);
``FMHA_EMU_CHECKS=0`` only accesses out of bounds; ``FMHA_EMU_CAREFUL=1`` no short ways;
``FMHA_EMU_STRICT=1`` a barrier does not order LDS reads that are outstanding at it;
``FMHA_EMU_REPORT`` a file that gets one line of JSON for each launch; ``FMHA_EMU_OBJDUMP`` and ``FMHA_EMU_BUNDLER`` paths of
``llvm-objdump`` and ``clang-offload-bundler``; ``FMHA_EMU_CACHE`` the folder that keeps disassemblies.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_amdgpu_emu.emulator import AmdgpuEmulator
from fmha_cli.plugin import Emulator, hookimpl


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (AmdgpuEmulator(),)
