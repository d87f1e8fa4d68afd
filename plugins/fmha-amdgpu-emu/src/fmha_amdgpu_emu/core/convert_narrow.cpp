#include "tables.hpp"

namespace emu {

const Table kNarrowTable{nullptr, 0};

}  // namespace emu
