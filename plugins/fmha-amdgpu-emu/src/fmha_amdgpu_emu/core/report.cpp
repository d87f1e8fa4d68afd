// Findings by place.
#include "report.hpp"

#include <algorithm>

#include "launch.hpp"

namespace emu {

namespace {
const std::string kNoKernel = "(no kernel)";

// What a thread counted last. A place that is found again and again then costs neither a lock nor a search.
struct Known {
  uint64_t life = 0;
  const Inst* inst = nullptr;
  const Launch* launch = nullptr;
  Finding kind = Finding::Count;
  Found* found = nullptr;
};

constexpr size_t kRecent = 16;
thread_local Known recent[kRecent];
std::atomic<uint64_t> lives{1};
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

Found* Report::place(Finding kind, const Wave& w, const Inst& i, int lane, bool& fresh) {
  const std::string& kernel = w.launch && w.launch->kernel ? w.launch->kernel->name : kNoKernel;
  std::lock_guard lock(mutex_);
  if (life_.load() == 0) life_ = lives.fetch_add(1);
  const auto seen = places_.find(Key{kind, i.address, &kernel});
  fresh = seen == places_.end();
  if (!fresh) return seen->second.get();
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
  Found* out = place.get();
  places_.emplace(Key{kind, i.address, &out->kernel}, std::move(place));
  return out;
}

Found* Report::count(Finding kind, const Wave& w, const Inst& i, int lane) {
  Known& known = recent[(reinterpret_cast<uintptr_t>(&i) / sizeof(Inst) + size_t(kind)) % kRecent];
  const uint64_t life = life_.load(std::memory_order_acquire);
  bool fresh = false;
  if (life == 0 || known.life != life || known.inst != &i || known.kind != kind || known.launch != w.launch) {
    Found* found = place(kind, w, i, lane, fresh);
    known = {life_.load(), &i, w.launch, kind, found};
  }
  std::atomic_ref(known.found->count).fetch_add(1, std::memory_order_relaxed);
  return fresh ? known.found : nullptr;
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
  life_ = lives.fetch_add(1);
  std::sort(out.begin(), out.end(), [](const Found& a, const Found& b) {
    if (a.kernel != b.kernel) return a.kernel < b.kernel;
    return a.address != b.address ? a.address < b.address : a.kind < b.kind;
  });
  return out;
}

}  // namespace emu
