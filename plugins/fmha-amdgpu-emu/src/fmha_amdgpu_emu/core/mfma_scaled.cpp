#include "tables.hpp"

namespace emu {

const Table kMfmaScaledTable{nullptr, 0};

}  // namespace emu
