#include "tables.hpp"

namespace emu {

const Table kGlobalTable{nullptr, 0};

}  // namespace emu
