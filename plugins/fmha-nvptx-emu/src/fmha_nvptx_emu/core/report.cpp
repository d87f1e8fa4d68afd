#include "report.hpp"

#include <algorithm>
#include <cstdio>

#include "block.hpp"

namespace ptx {

const char* name_of(Finding kind) {
  switch (kind) {
    case Finding::OutOfBounds: return "out-of-bounds";
    case Finding::Misaligned: return "misaligned";
    case Finding::MissingWait: return "missing-wait";
    case Finding::SharedRace: return "shared-race";
    case Finding::WriteConflict: return "write-conflict";
    case Finding::UninitialisedShared: return "uninitialised-shared";
    case Finding::UninitialisedRegister: return "uninitialised-register";
    case Finding::MissingFence: return "missing-fence";
    case Finding::MbarrierMisuse: return "mbarrier-misuse";
    case Finding::DivergentBarrier: return "divergent-barrier";
    case Finding::Count: break;
  }
  return "unknown";
}

Found* Report::count(Finding kind, const Warp& w, const Inst& i, int lane) {
  const auto [place, fresh] = places_.try_emplace({&i, kind});
  Found& found = place->second;
  ++found.count;
  if (!fresh) return nullptr;
  found.kind = kind;
  found.kernel = w.block->kernel->name;
  found.instruction = std::string(i.at->text);
  found.line = i.at->line;
  found.warp = w.index, found.lane = lane;
  for (unsigned k = 0; k < 3; ++k) found.block[k] = w.block->id[k];
  return &found;
}

std::vector<Found> Report::take() {
  std::lock_guard lock(mutex_);
  std::vector<Found> out;
  for (auto& [_, found] : places_) out.push_back(std::move(found));
  places_.clear();
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) {
    return a.line != b.line ? a.line < b.line : a.kind < b.kind;
  });
  return out;
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string json_string(const std::string& text) {
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

std::string json_of(const std::vector<Found>& findings) {
  std::string out = "[";
  for (const Found& found : findings) {
    if (out.size() > 1) out += ',';
    out += "{\"kind\":" + json_string(name_of(found.kind)) + ",\"kernel\":" + json_string(found.kernel) +
           ",\"instruction\":" + json_string(found.instruction) + ",\"text\":" + json_string(found.text) +
           ",\"address\":" + std::to_string(found.line) + ",\"wave\":" + std::to_string(found.warp) +
           ",\"lane\":" + std::to_string(found.lane) + ",\"group\":[" + std::to_string(found.block[0]) + ',' +
           std::to_string(found.block[1]) + ',' + std::to_string(found.block[2]) +
           "],\"count\":" + std::to_string(found.count) + '}';
  }
  return out += ']';
}

}  // namespace ptx
