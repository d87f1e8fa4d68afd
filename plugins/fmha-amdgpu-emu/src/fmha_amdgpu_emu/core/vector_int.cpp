#include "tables.hpp"

namespace emu {

const Table kVectorIntTable{nullptr, 0};

}  // namespace emu
