// SHA-256 (FIPS 180-4): names of cached disassemblies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emu {

std::string sha256(const uint8_t* data, size_t bytes);  // 64 hexadecimal digits

}  // namespace emu
