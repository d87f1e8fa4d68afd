#include "tables.hpp"

namespace emu {

const Table kAtomicTable{nullptr, 0};

}  // namespace emu
