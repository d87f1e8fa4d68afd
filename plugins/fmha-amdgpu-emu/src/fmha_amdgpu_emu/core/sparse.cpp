#include "tables.hpp"

namespace emu {

const Table kSparseTable{nullptr, 0};

}  // namespace emu
