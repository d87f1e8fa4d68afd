// Architectures by name.
#pragma once

#include <string_view>

#include "inst.hpp"

namespace emu {

inline constexpr std::string_view kArchNames[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};  // as in Arch

inline bool arch_named(std::string_view name, Arch& arch) {
  for (size_t k = 0; k < std::size(kArchNames); ++k)
    if (name == kArchNames[k]) {
      arch = Arch(k);
      return true;
    }
  return false;
}

}  // namespace emu
