#include "tables.hpp"

namespace emu {

const Table kDotTable{nullptr, 0};

}  // namespace emu
