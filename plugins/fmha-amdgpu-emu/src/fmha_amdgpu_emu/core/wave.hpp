// The state of a wave, of its workgroup, and of the launch that both belong to.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "arch_traits.hpp"
#include "inst.hpp"
#include "sets.hpp"
#include "tracking.hpp"

namespace emu {

struct alignas(64) Row {
  uint32_t x[kLanes];
};

enum class State : uint8_t { Running, AtBarrier, Yielded, Ended, Stopped };

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Launch;  // launch.hpp
struct Group;

// MODE register fields (ISA documents: "MODE register").
struct Mode {
  uint32_t bits = 0;
  int round32() const { return bits & 3; }          // 0 nearest even, 1 +inf, 2 -inf, 3 zero
  int round16_64() const { return bits >> 2 & 3; }
  bool flush_in32() const { return !(bits >> 4 & 1); }
  bool flush_out32() const { return !(bits >> 5 & 1); }
  bool flush_in16_64() const { return !(bits >> 6 & 1); }
  bool flush_out16_64() const { return !(bits >> 7 & 1); }
  bool dx10_clamp() const { return bits >> 8 & 1; }
  bool ieee() const { return bits >> 9 & 1; }
};

struct alignas(64) Wave {
  Row v[kVgprs];
  uint32_t s[kScalars];
  bool scc = false;
  Mode mode;
  State state = State::Running;
  const Inst* pc = nullptr;    // the next instruction; handlers of branches set it
  const ArchTraits* arch = nullptr;
  int lanes = 64;
  uint64_t full = ~0ull;       // all lanes
  int index = 0;               // in its workgroup
  Group* group = nullptr;
  Launch* launch = nullptr;
  uint64_t dpp_mask = ~0ull;   // lanes that the last DPP fetch allows to be written
  uint8_t* scratch = nullptr;  // host memory: `scratch_bytes` for each lane, lane after lane
  uint32_t scratch_bytes = 0;
  uint64_t scratch_va = 0;     // address of that memory in the private aperture or the scratch buffer
  uint32_t hw_id = 0;
  uint64_t executed = 0;       // instructions since the wave began
  uint32_t signals = 0, waited = 0;  // barrier phases that this wave signalled, and waited for (barrier.cpp)
  Tracker track;               // tracking.hpp

  uint64_t pair(int reg) const {
    uint64_t out;
    std::memcpy(&out, s + reg, 8);
    return out;
  }
  void set_pair(int reg, uint64_t value) { std::memcpy(s + reg, &value, 8); }
  uint64_t exec() const { return lanes == 64 ? pair(kExec) : s[kExec]; }
  uint64_t vcc() const { return lanes == 64 ? pair(kVcc) : s[kVcc]; }
  void set_exec(uint64_t m) { lanes == 64 ? set_pair(kExec, m) : void(s[kExec] = uint32_t(m)); }
  // A lane mask in any pair (wave64) or single register (wave32).
  void set_mask(int reg, uint64_t m) { lanes == 64 ? set_pair(reg, m) : void(s[reg] = uint32_t(m)); }
  uint64_t mask(int reg) const { return lanes == 64 ? pair(reg) : s[reg]; }
};

// A workgroup: its waves, its LDS and the books about both.
struct Group {
  Dim3 id;                       // workgroup ids
  Launch* launch = nullptr;
  std::vector<std::unique_ptr<Wave>> waves;
  std::vector<uint8_t> lds;      // allocated bytes, guard-free
  LdsBooks books;                // tracking.hpp
  uint32_t arrived = 0;          // waves that signalled the barrier's present phase
  uint32_t phase = 0;            // phases that are complete
  uint32_t started = 0;          // waves that the dispatcher began: fewer than `waves` in a partial workgroup
  uint32_t live = 0;             // waves that have not ended; nobody waits for ended ones
};

inline bool meets_pending(const Tracker& t, const Inst& i) {
  return t.any && (meet(i.v_reads, t.v_pending) || meet(i.v_writes, t.v_pending) || (i.s_reads & t.s_pending).any() ||
                   (i.s_writes & t.s_pending).any());
}

// The usual case costs a few tests of 512-bit sets: nothing that the instruction touches is pending, and every source
// and destination is defined.
inline void track_before(Wave& w, const Inst& i) {
  const Tracker& t = w.track;
  if (meets_pending(t, i) || !within(i.v_reads, t.defined) || !within(i.v_writes, t.defined)) track_closely(w, i);
}

}  // namespace emu
