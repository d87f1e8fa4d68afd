#include "tables.hpp"

namespace emu {

const Table kDivisionTable{nullptr, 0};

}  // namespace emu
