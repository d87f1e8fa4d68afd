#include "tables.hpp"

namespace emu {

const Table kFloat64Table{nullptr, 0};

}  // namespace emu
