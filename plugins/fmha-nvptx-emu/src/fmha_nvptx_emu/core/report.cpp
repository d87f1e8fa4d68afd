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
    case Finding::TensorMemoryMisuse: return "tensor-memory-misuse";
    case Finding::ClusterMisuse: return "cluster-misuse";
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
  found.address = i.at->line;
  found.wave = w.index, found.lane = lane;
  for (unsigned k = 0; k < 3; ++k) found.group[k] = w.block->id[k];
  return &found;
}

std::vector<Found> Report::take() {
  std::lock_guard lock(mutex_);
  std::vector<Found> out;
  for (auto& [_, found] : places_) out.push_back(std::move(found));
  places_.clear();
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) {
    return a.address != b.address ? a.address < b.address : a.kind < b.kind;
  });
  return out;
}

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace ptx
