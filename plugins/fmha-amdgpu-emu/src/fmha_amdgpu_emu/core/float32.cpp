#include "tables.hpp"

namespace emu {

const Table kFloatTable{nullptr, 0};

}  // namespace emu
