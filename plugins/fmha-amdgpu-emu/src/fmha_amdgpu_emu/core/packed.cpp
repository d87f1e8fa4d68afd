#include "tables.hpp"

namespace emu {

const Table kPackedTable{nullptr, 0};

}  // namespace emu
