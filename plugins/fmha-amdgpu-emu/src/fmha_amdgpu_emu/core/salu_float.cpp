#include "tables.hpp"

namespace emu {

const Table kSaluFloatTable{nullptr, 0};

}  // namespace emu
