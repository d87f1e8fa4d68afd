#include "tables.hpp"

namespace emu {

const Table kFloat16Table{nullptr, 0};

}  // namespace emu
