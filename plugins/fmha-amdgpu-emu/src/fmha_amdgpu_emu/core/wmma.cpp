#include "tables.hpp"

namespace emu {

const Table kWmmaTable{nullptr, 0};

}  // namespace emu
