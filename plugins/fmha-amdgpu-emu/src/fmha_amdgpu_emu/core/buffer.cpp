#include "tables.hpp"

namespace emu {

const Table kBufferTable{nullptr, 0};

}  // namespace emu
