// Findings and counts as JSON text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch.hpp"

namespace emu {

std::string json_string(std::string_view text);
std::string to_json(const std::vector<Found>& findings);

}  // namespace emu
