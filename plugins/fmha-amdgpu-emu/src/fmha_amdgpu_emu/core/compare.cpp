#include "tables.hpp"

namespace emu {

const Table kCompareTable{nullptr, 0};

}  // namespace emu
