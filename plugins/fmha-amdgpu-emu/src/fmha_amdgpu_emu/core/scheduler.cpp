// The engine: one thread's workgroups and their waves.
#include "emu_random.hpp"
#include "scheduler.hpp"

#include <algorithm>
#include <cfenv>
#include <cstdio>
#include <exception>

#include "control.hpp"

namespace emu {

namespace {

// A wave that neither ends nor waits yields after this many instructions: it may spin for what another wave has to do.
constexpr uint64_t kTurn = 1 << 16;
// If each wave does nothing but spin for this many instructions, other workgroups get their turn.
constexpr uint64_t kPatience = 16 * kTurn;
constexpr size_t kMostGroups = 1024;  // of one thread at once

thread_local Counts* current = nullptr;
thread_local uint64_t clock_ = 0;

using emulation::Random;  // the order of waves is the same for the same seed, workgroup and round

struct Running {
  std::unique_ptr<Group> group;
  std::vector<uint8_t> scratch;
  uint64_t linear = 0;
  Random random{0};
  uint64_t spinning = 0;  // rounds
};

class Worker {
 public:
  explicit Worker(Shared& shared)
      : shared_(shared), d_(shared.dispatch), options_(shared.dispatch.launch.options),
        turn_(options_.turn ? std::min(options_.turn, kTurn) : kTurn), patience_(kPatience / turn_) {}

  void work() {
    std::fenv_t before;
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);  // a host program may flush denormals or round otherwise
    current = &counts_;
    try {
      while (!shared_.stop.load(std::memory_order_relaxed)) {
        const bool begun = (live_.empty() || waiting_) && live_.size() < kMostGroups && begin();
        if (live_.empty()) break;
        waiting_ = begun || turn() ? false : true;
      }
    } catch (const std::exception& error) {
      fail(~0ull - 1, std::string("the emulator failed: ") + error.what());
    }
    current = nullptr;
    std::fesetenv(&before);
    std::lock_guard lock(shared_.mutex);
    shared_.counts.add(counts_);
  }

 private:
  bool begin();
  bool turn();
  bool round(Running& r);
  void execute(Running& r, Wave& w);
  template <bool Track> uint64_t steps(Wave& w, uint64_t most, const Inst*& at);
  void fail(uint64_t linear, const std::string& sentence);
  void end_wave(Wave& w);
  uint64_t work_done() const;

  Shared& shared_;
  const Dispatch& d_;
  const Options& options_;
  const uint64_t turn_, patience_;  // instructions of a wave's turn; rounds of only spinning
  Counts counts_;
  std::vector<std::unique_ptr<Running>> live_, free_;
  size_t at_ = 0;         // whose turn it is
  bool waiting_ = false;  // every live workgroup only spins: begin another one
};

bool Worker::begin() {
  const uint64_t linear = shared_.next.fetch_add(1);
  if (linear >= d_.groups) return false;
  std::unique_ptr<Running> r;
  if (free_.empty()) {
    r = std::make_unique<Running>();
    r->group = std::make_unique<Group>();
    for (uint32_t k = 0; k < d_.waves; ++k) r->group->waves.push_back(std::make_unique<Wave>());
    r->scratch.resize(size_t(d_.scratch_bytes) * size_t(d_.lanes) * d_.waves);
  } else {
    r = std::move(free_.back());
    free_.pop_back();
  }
  Group& g = *r->group;
  r->linear = linear;
  r->random.state = options_.seed * 0x2545f4914f6cdd1dull + linear;
  r->spinning = 0;
  g.id = d_.group_id(linear);
  g.launch = &d_.launch;
  g.lds.assign(d_.lds_bytes, kPoison);
  g.arrived = g.phase = 0;
  g.live = g.started = d_.waves_of(g.id);
  std::fill(r->scratch.begin(), r->scratch.end(), kPoison);
  for (uint32_t k = 0; k < d_.waves; ++k) {
    Wave& w = *g.waves[k];
    w.arch = &arch_of(*d_.launch.program);
    w.lanes = d_.lanes;
    w.full = d_.lanes == 64 ? ~0ull : (1ull << d_.lanes) - 1;
    w.index = int(k);
    w.group = &g;
    w.launch = &d_.launch;
    w.scratch_bytes = d_.scratch_bytes;
    w.scratch = r->scratch.empty() ? nullptr : r->scratch.data() + size_t(k) * d_.scratch_bytes * size_t(d_.lanes);
    w.scratch_va = reinterpret_cast<uint64_t>(w.scratch);
    d_.start(w);
    if (k >= g.started) w.state = State::Ended;
    w.track.on = false;
  }
  if (options_.track) {
    track_begin(g);
    for (auto& w : g.waves) define(*w, 0, w->full);
  }
  live_.push_back(std::move(r));
  at_ = live_.size() - 1;
  return true;
}

// One round of the workgroup whose turn it is. False: all live workgroups have only spun since the last progress.
bool Worker::turn() {
  at_ %= live_.size();
  Running& r = *live_[at_];
  if (round(r)) {
    if (r.group->live == 0) {
      free_.push_back(std::move(live_[at_]));
      live_.erase(live_.begin() + std::ptrdiff_t(at_));
      return true;
    }
    r.spinning = 0;
    return true;
  }
  if (++r.spinning < patience_) return true;
  ++at_;
  return !std::all_of(live_.begin(), live_.end(), [&](const auto& one) { return one->spinning >= patience_; });
}

void Worker::end_wave(Wave& w) {
  Group& g = *w.group;
  --g.live;
  if (complete_phase(g)) report_divergence(w, *w.pc);
}

// What a loop that only waits for another wave never does. Such a loop may store and try atomics.
uint64_t Worker::work_done() const { return counts_.matrix_flops + counts_.lds_written + counts_.scratch_written; }

// Runs every wave that can run once, in an order that the seed decides. True: some wave did more than spin.
bool Worker::round(Running& r) {
  Group& g = *r.group;
  uint32_t order[64];
  const uint32_t n = std::min<uint32_t>(uint32_t(g.waves.size()), 64);
  for (uint32_t k = 0; k < n; ++k) order[k] = k;
  if (options_.seed)
    for (uint32_t k = n; k > 1; --k) std::swap(order[k - 1], order[r.random.next() % k]);
  bool progress = false;
  for (uint32_t k = 0; k < n; ++k) {
    Wave& w = *g.waves[order[k]];
    if (w.state == State::Yielded) w.state = State::Running;
    if (w.state != State::Running) continue;
    const uint64_t before = work_done();
    execute(r, w);
    progress |= w.state != State::Yielded || work_done() != before;
    if (w.state == State::Stopped) return true;
  }
  for (auto& w : g.waves)
    if (w->state == State::AtBarrier && g.phase >= w->signals) {
      w->state = State::Running;
      barrier_passed(*w);
      progress = true;
    }
  return progress;
}

template <bool Track> uint64_t Worker::steps(Wave& w, uint64_t most, const Inst*& at) {
  uint64_t left = most;
  do {
    const Inst& i = *w.pc;
    at = &i;
    w.pc = i.next;
    if (Track) track_before(w, i);
    i.run(w, i);
    if (Track) track_after(w, i);
    ++counts_.classes[size_t(i.cls)];
  } while (--left && w.state == State::Running);
  return most - left;
}

void Worker::execute(Running& r, Wave& w) {
  const Inst* at = w.pc;
  const uint64_t limit = options_.most_instructions;
  const uint64_t most = limit ? std::min(turn_, limit - w.executed) : turn_;
  std::string why;
  uint64_t done = 0;
  try {
    done = options_.track ? steps<true>(w, most, at) : steps<false>(w, most, at);
  } catch (const Unexecutable& stop) {
    why = stop.why;
  } catch (const std::exception& error) {
    why = std::string("the emulator failed: ") + error.what();
  }
  w.executed += done;
  clock_ += done;
  counts_.instructions += done;
  if (why.empty() && w.state == State::Running) {
    w.state = State::Yielded;
    if (limit && w.executed >= limit) why = "the wave has executed " + std::to_string(limit) + " instructions, the limit";
  }
  if (w.state == State::Ended) {
    w.pc = at;
    end_wave(w);
  }
  if (why.empty()) return;
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(at->address));
  fail(r.linear, std::string(at->mnemonic) + " at " + address + " in " + d_.launch.kernel->name + ": " + why);
  w.state = State::Stopped;
}

void Worker::fail(uint64_t linear, const std::string& sentence) {
  std::lock_guard lock(shared_.mutex);
  shared_.stop = true;
  if (linear >= shared_.faulted) return;
  shared_.faulted = linear;
  shared_.fault = sentence;
}

}  // namespace

void work(Shared& shared) { Worker(shared).work(); }

uint64_t ticks() { return ++clock_; }

Counts& counts() {
  static thread_local Counts none;
  return current ? *current : none;
}

}  // namespace emu
