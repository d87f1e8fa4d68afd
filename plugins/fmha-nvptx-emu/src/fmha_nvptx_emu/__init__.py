"""Executes PTX on the CPU, as NVIDIA GPUs would. ``device_facts.ARCHS`` lists the devices, ``emu:sm_80`` and so on.

``docs/explanation/emulation.md`` states what a run proves.

To add an instruction: run the kernel, and the message names the line. Add a row to the table of a ``core/op_*.cpp``: root, section,
class, and the function that binds it. The binder takes the modifiers that it implements (``b.take("ftz")``), names its operands and
returns a handler for 32 lanes; a modifier that it leaves stops the load. Add a case to the tests' opcode cases: the instruction, its
inputs, and a formula from the document. ``python -m fmha_nvptx_emu.building`` compiles the changed file.

How it runs: lanes at different instructions are parts of a warp; the part with the lowest address runs, and parts that meet become
one. A call becomes a copy of the function's body, at most 32 deep. A warp may wait in a loop for a value that another
warp or a later block stores: after 2^20 instructions other warps have their turn, after 2^22 another block begins. A
``try_wait`` that fails answers false once, as it may on hardware, and then suspends its warp until the phase is over.

How it reads the PTX ISA 9.1 where the text leaves something open:

- A copy, bulk copy or product is there at once. Its words stay outstanding for each warp until that warp has waited, or met at a
  barrier with a warp that has. A ``cp.async`` of no bytes is asynchronous too (9.7.9.25.3).
- ``fence.proxy.async`` covers earlier accesses of its own warp and of warps that it met at a barrier, so it may stand on either side
  of the barrier. Whether an mbarrier's initialisation needs one is not checked.
- A ``cp.async.mbarrier.arrive`` arrives with release, as its thread would: who waits for the phase also knows what the warp did before.
- A ``barrier.cluster.arrive.relaxed`` behind ``fence.mbarrier_init`` orders the initialisations before the fence, for warps of the block
  that wait for this barrier, and nothing else.
- A ``mov`` between ``wgmma.fence`` and ``wgmma`` is not a finding: compilers place copies and constants there.
- An mbarrier may be invalidated, and a block may end, once the last arrival from another block is known to be over: by a wait for its
  phase, or by a ``barrier.cluster`` behind it. For a ``tcgen05.commit``, the product must be known to be over.
- A kernel without any ``tcgen05.fence``, as Triton compiles them, does not need one.
- Registers of a ``tcgen05.ld`` may be used before ``tcgen05.wait::ld`` (9.7.16.6.4.5). The wait orders the memory.
- The text and the examples of 9.7.16.4.3 name the two spans of a mask the other way round. The examples count here.
- A 4-bit element in tensor memory lies in bits 2 to 5 of its byte, as in the registers of ``mma``; the document shows it in figures.
- An address of ``tcgen05.ld`` or ``st`` in the first quarter reaches the warp's own quarter, because cuDNN's kernels leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence

from fmha_cli.plugin import Emulator, hookimpl
from fmha_nvptx_emu.emulator import NvptxEmulator


@hookimpl
def fmha_register_emulators() -> Sequence[Emulator]:
    return (NvptxEmulator(),)
