#include "tables.hpp"

namespace emu {

const Table kScratchTable{nullptr, 0};

}  // namespace emu
