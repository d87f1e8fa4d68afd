// The text of a code object by llvm-objdump, kept in a folder from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emu {

// FMHA_EMU_OBJDUMP names the program, else the first llvm-objdump of PATH; FMHA_EMU_CACHE the folder (none: nothing is
// kept). `digest` is the code object's sha256; `features` what --mattr says, or nothing. Throws LoadError with a sentence.
std::string disassemble(const uint8_t* elf, size_t bytes, const std::string& digest, const std::string& features);

}  // namespace emu
