// Global memory: what both emulators keep about allocations. Device addresses are host addresses.
#pragma once

#include "emu_memory.hpp"

namespace ptx {

using emulation::memory;
using emulation::Range;
using emulation::Region;

}  // namespace ptx
