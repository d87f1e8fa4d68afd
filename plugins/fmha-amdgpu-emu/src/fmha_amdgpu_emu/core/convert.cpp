#include "tables.hpp"

namespace emu {

const Table kConvertTable{nullptr, 0};

}  // namespace emu
