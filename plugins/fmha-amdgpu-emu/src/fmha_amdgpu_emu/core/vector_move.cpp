#include "tables.hpp"

namespace emu {

const Table kVectorMoveTable{nullptr, 0};

}  // namespace emu
