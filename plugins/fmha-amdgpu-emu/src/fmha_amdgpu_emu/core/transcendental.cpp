#include "tables.hpp"

namespace emu {

const Table kTranscendentalTable{nullptr, 0};

}  // namespace emu
