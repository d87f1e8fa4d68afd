#include "tables.hpp"

namespace emu {

const Table kScalarMemoryTable{nullptr, 0};

}  // namespace emu
