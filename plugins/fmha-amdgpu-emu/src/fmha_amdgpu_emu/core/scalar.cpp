#include "tables.hpp"

namespace emu {

const Table kScalarTable{nullptr, 0};

}  // namespace emu
