#include "tables.hpp"

namespace emu {

const Table kMfmaTable{nullptr, 0};

}  // namespace emu
