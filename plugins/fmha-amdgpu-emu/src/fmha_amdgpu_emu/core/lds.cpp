#include "tables.hpp"

namespace emu {

const Table kLdsTable{nullptr, 0};

}  // namespace emu
