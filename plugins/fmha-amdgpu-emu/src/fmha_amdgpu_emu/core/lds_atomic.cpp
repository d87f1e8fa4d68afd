#include "tables.hpp"

namespace emu {

const Table kLdsAtomicTable{nullptr, 0};

}  // namespace emu
