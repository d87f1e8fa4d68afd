"""The environment variables of the library, and the programs that it starts."""

from __future__ import annotations

import os

from fmha_cli.plugin import DeviceFacts, EmulatorOptions, llvm_tool, variables_of

_TOOLS = {"FMHA_EMU_OBJDUMP": "llvm-objdump", "FMHA_EMU_BUNDLER": "clang-offload-bundler"}
"""Variable -> the program that the library starts. A variable that the user has set stays."""


def variables(device: DeviceFacts, options: EmulatorOptions) -> dict[str, str]:
    """The environment variables that the library reads (``core/executor.cpp``, ``core/disassembly.cpp``)."""
    out = variables_of(device, options)
    if options.cache is not None:
        out["FMHA_EMU_CACHE"] = options.cache
    for variable, name in _TOOLS.items():
        found = None if os.environ.get(variable) else llvm_tool(name)
        if found is not None:
            out[variable] = str(found)
    return out
