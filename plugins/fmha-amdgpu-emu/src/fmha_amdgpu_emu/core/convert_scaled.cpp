#include "tables.hpp"

namespace emu {

const Table kScaledConvertTable{nullptr, 0};

}  // namespace emu
