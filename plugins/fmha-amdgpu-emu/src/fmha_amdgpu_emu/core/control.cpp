#include "tables.hpp"

namespace emu {

const Table kControlTable{nullptr, 0};

}  // namespace emu
