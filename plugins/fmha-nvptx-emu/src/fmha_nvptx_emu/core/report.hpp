// Findings: faults that hardware would hide. Each place in a kernel is one finding, with a count and its first example.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "emu_found.hpp"

namespace ptx {

struct Warp;
struct Inst;

enum class Finding : uint8_t {
  OutOfBounds,
  Misaligned,
  MissingWait,            // a word or register used while a copy or wgmma that touches it is outstanding
  SharedRace,
  WriteConflict,          // two blocks wrote different values, and nothing orders them
  UninitialisedShared,
  UninitialisedRegister,
  MissingFence,           // a proxy fence, or wgmma.fence
  MbarrierMisuse,
  DivergentBarrier,       // also every other .aligned instruction
  TensorMemoryMisuse,     // outside of an allocation or of a warp's quarter, freed twice, never freed
  ClusterMisuse,          // a block is signalled that has ended, or that the cluster does not have
  Count
};
const char* name_of(Finding kind);

using Found = emulation::FoundOf<Finding>;  // its address is the line of the PTX text
using emulation::json_string;
using emulation::to_json;

class Report {
 public:
  // `text` runs only for the first example of a place.
  template <class F> void add(Finding kind, const Warp& w, const Inst& i, int lane, F text) {
    std::lock_guard lock(mutex_);
    if (Found* fresh = count(kind, w, i, lane)) fresh->text = text();
  }
  std::vector<Found> take();

 private:
  Found* count(Finding kind, const Warp& w, const Inst& i, int lane);
  std::mutex mutex_;
  std::map<std::pair<const Inst*, Finding>, Found> places_;
};

std::string hex(uint64_t value);

}  // namespace ptx
