// Findings by place.
#include "report.hpp"

#include <algorithm>

#include "launch.hpp"

namespace emu {

namespace {
const std::string kNoKernel = "(no kernel)";
}

const char* name_of(Finding kind) {
  switch (kind) {
    case Finding::OutOfBounds: return "out-of-bounds";
    case Finding::MissingWait: return "missing-wait";
    case Finding::LdsRace: return "lds-race";
    case Finding::UninitialisedLds: return "uninitialised-lds";
    case Finding::UninitialisedRegister: return "uninitialised-register";
    case Finding::DivergentBarrier: return "divergent-barrier";
    case Finding::Count: break;
  }
  return "unknown";
}

Found* Report::count(Finding kind, const Wave& w, const Inst& i, int lane) {
  const std::string& kernel = w.launch && w.launch->kernel ? w.launch->kernel->name : kNoKernel;
  std::lock_guard lock(mutex_);
  if (const auto seen = places_.find(Key{kind, i.address, &kernel}); seen != places_.end()) {
    ++seen->second->count;
    return nullptr;
  }
  auto place = std::make_unique<Found>();
  place->kind = kind;
  place->kernel = kernel;
  place->instruction = i.text.empty() ? i.mnemonic : i.text;
  place->address = i.address;
  place->wave = uint32_t(w.index);
  place->lane = lane;
  if (w.group) {
    place->group[0] = w.group->id.x;
    place->group[1] = w.group->id.y;
    place->group[2] = w.group->id.z;
  }
  place->count = 1;
  Found* fresh = place.get();
  places_.emplace(Key{kind, i.address, &fresh->kernel}, std::move(place));
  return fresh;
}

void Report::describe(Found* place, std::string words) {
  std::lock_guard lock(mutex_);
  place->text = std::move(words);
}

std::vector<Found> Report::take() {
  std::lock_guard lock(mutex_);
  std::vector<Found> out;
  out.reserve(places_.size());
  for (auto& [_, found] : places_) out.push_back(std::move(*found));
  places_.clear();
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) {
    if (a.kernel != b.kernel) return a.kernel < b.kernel;
    return a.address != b.address ? a.address < b.address : a.kind < b.kind;
  });
  return out;
}

}  // namespace emu
