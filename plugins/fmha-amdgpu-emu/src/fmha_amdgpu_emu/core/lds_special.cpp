#include "tables.hpp"

namespace emu {

const Table kLdsSpecialTable{nullptr, 0};

}  // namespace emu
