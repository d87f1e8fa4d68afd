"""Executes PTX on the CPU, as NVIDIA GPUs would. ``device_facts.ARCHS`` lists the devices, ``emu:sm_80`` and so on.

``docs/explanation/emulation.md`` says what a run proves.

To add an instruction: run the kernel, and the message names the line. Add a row to the table of a ``core/op_*.cpp``: root, section,
class, and the function that binds it. The binder takes the modifiers that it implements (``b.take("ftz")``), names its operands and
returns a handler for 32 lanes; a modifier that it leaves stops the load. Add a case to the tests' opcode cases: the instruction, its
inputs, and a formula from the document. ``python -m fmha_nvptx_emu.building`` compiles the changed file.

How it runs: lanes at different instructions are parts of a warp; the part with the lowest address runs, and parts that meet become
one. A call becomes a copy of the function's body, at most 32 deep. A warp may wait in a loop for what another warp or a later block
stores: after 2^20 instructions other warps have their turn, after 2^22 another block begins. A ``try_wait`` that fails answers false
once, as it may on hardware, and then suspends its warp until the phase is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.api import Emulator, hookimpl
from fmha_nvptx_emu.emulator import NvptxEmulator


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (NvptxEmulator(),)
