// Findings and counts as JSON text.
#pragma once

#include "launch.hpp"

namespace emu {

using emulation::json_string;
using emulation::to_json;

}  // namespace emu
