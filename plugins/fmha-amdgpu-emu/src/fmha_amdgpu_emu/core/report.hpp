// Findings: faults that hardware would hide. Each place in the code is one finding, with a count and its first example.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emu_found.hpp"

namespace emu {

struct Wave;
struct Inst;

enum class Finding : uint8_t {
  OutOfBounds,         // a global, flat, scratch or LDS access outside of every allocation
  MissingWait,         // a register or LDS word used while its load is outstanding
  LdsRace,             // two waves, one of which writes, and no barrier in between
  UninitialisedLds,
  UninitialisedRegister,
  DivergentBarrier,    // some waves ended or wait elsewhere
  Count
};

const char* name_of(Finding kind);  // "out-of-bounds", "missing-wait", "lds-race", ...

using Found = emulation::FoundOf<Finding>;

// Keeps one Found for each (kind, kernel, instruction address); safe for several threads.
class Report {
 public:
  // `text` runs only for the first example of a place: pass a callable that returns std::string.
  template <class F> void add(Finding kind, const Wave& w, const Inst& i, int lane, F text) {
    if (Found* fresh = count(kind, w, i, lane)) { std::string words = text(); describe(fresh, std::move(words)); }
  }
  std::vector<Found> take();

 private:
  Found* count(Finding kind, const Wave& w, const Inst& i, int lane);  // not null: a new place
  Found* place(Finding kind, const Wave& w, const Inst& i, int lane, bool& fresh);
  void describe(Found* place, std::string words);
  struct Key {
    Finding kind;
    uint64_t address;
    const std::string* kernel;  // of the Found itself, or of the launch that asks
  };
  struct Less {
    bool operator()(const Key& a, const Key& b) const {
      if (a.kind != b.kind) return a.kind < b.kind;
      return a.address != b.address ? a.address < b.address : *a.kernel < *b.kernel;
    }
  };
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Found>, Less> places_;
  std::atomic<uint64_t> life_{0};  // changes with each report and each `take`; 0: not begun
};

// An instruction cannot be executed: the launch stops with this sentence (mnemonic, address and kernel are added).
struct Unexecutable {
  std::string why;
};

}  // namespace emu
