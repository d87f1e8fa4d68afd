#include "tables.hpp"

namespace emu {

const Table kMfmaExactTable{nullptr, 0};

}  // namespace emu
