// Device memory: what both emulators keep about allocations. Device addresses are host addresses.
#pragma once

#include "emu_memory.hpp"

namespace emu {

using emulation::Memory;
using emulation::memory;
using emulation::Region;

}  // namespace emu
