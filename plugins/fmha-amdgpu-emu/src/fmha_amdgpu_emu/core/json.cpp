#include "json.hpp"

#include <cstdio>

namespace emu {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(c));
      out += escape;
    } else out += c;
  }
  return out += '"';
}

std::string to_json(const std::vector<Found>& findings) {
  std::string out = "[";
  for (const Found& found : findings) {
    if (out.size() > 1) out += ',';
    out += "{\"kind\":" + json_string(name_of(found.kind)) + ",\"kernel\":" + json_string(found.kernel) +
           ",\"instruction\":" + json_string(found.instruction) + ",\"text\":" + json_string(found.text) +
           ",\"address\":" + std::to_string(found.address) + ",\"wave\":" + std::to_string(found.wave) +
           ",\"lane\":" + std::to_string(found.lane) + ",\"group\":[" + std::to_string(found.group[0]) + ',' +
           std::to_string(found.group[1]) + ',' + std::to_string(found.group[2]) +
           "],\"count\":" + std::to_string(found.count) + '}';
  }
  return out += ']';
}

}  // namespace emu
