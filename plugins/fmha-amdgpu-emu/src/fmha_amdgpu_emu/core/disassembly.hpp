// Disassembles code objects with llvm-objdump and keeps the texts in a folder from run to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emu {

// FMHA_EMU_OBJDUMP names the program; otherwise it is the first llvm-objdump of PATH. FMHA_EMU_CACHE names the folder;
// without it nothing is kept. `digest` is the code object's sha256. `features` goes to --mattr; it may be empty. Throws
// LoadError with a sentence.
std::string disassemble(const uint8_t* elf, size_t bytes, const std::string& digest, const std::string& features);

}  // namespace emu
