// Waits for outstanding operations. One packed word in `extra64` holds how many operations of each counter may remain.
#include <cstdlib>

#include "control.hpp"
#include "wave.hpp"

namespace emu {

namespace {

constexpr int kCounters = int(Counter::Count);
constexpr uint64_t kAny = 0xff;  // no limit; every counter of every generation is narrower

struct Limits {
  uint64_t packed = ~0ull;
  void set(Counter counter, uint64_t remaining) {
    const int shift = 8 * int(counter);
    packed = (packed & ~(kAny << shift)) | std::min<uint64_t>(remaining, kAny) << shift;
  }
};

// The number in `name(...)` of the line, or -1.
int64_t counted(const std::string& text, const char* name) {
  const std::string opening = std::string(name) + "(";
  const size_t at = text.find(opening);
  if (at == std::string::npos || (at > 0 && text[at - 1] != ' ' && text[at - 1] != '&')) return -1;
  return std::strtoll(text.c_str() + at + opening.size(), nullptr, 0);
}

}  // namespace

void run_wait(Wave& w, const Inst& i) {
  for (int k = 0; k < kCounters; ++k)
    if (const uint64_t remaining = i.extra64 >> (8 * k) & kAny; remaining != kAny)
      wait_for(w, Counter(k), uint32_t(remaining));
}

// vmcnt, expcnt, lgkmcnt. A counter that the line omits has no limit. lgkmcnt counts LDS, scalar memory and messages
// together: at most n of either kind may remain. vmcnt counts stores on CDNA; vscnt does from gfx10 on.
std::string bind_waitcnt(Inst& i, const ArchTraits&) {
  Limits limits;
  const int64_t vector = counted(i.text, "vmcnt"), exports = counted(i.text, "expcnt");
  const int64_t shared = counted(i.text, "lgkmcnt");
  if (vector < 0 && exports < 0 && shared < 0) return "no counter is named";
  if (vector >= 0) limits.set(Counter::Load, uint64_t(vector));
  if (exports >= 0) limits.set(Counter::Export, uint64_t(exports));
  if (shared >= 0) limits.set(Counter::Ds, uint64_t(shared)), limits.set(Counter::Scalar, uint64_t(shared));
  i.extra64 = limits.packed;
  return {};
}

// The mnemonic names one counter, or two that share an immediate (the vector counter in bits 13:8, DS in bits 5:0).
std::string bind_wait_one(Inst& i, const ArchTraits&) {
  Limits limits;
  const std::string name = i.mnemonic;
  const uint64_t value = uint64_t(immediate(i));
  const auto ends = [&](const char* tail) { return name.ends_with(tail); };
  if (ends("_loadcnt_dscnt")) {
    limits.set(Counter::Load, value >> 8 & 0x3f), limits.set(Counter::Ds, value & 0x3f);
  } else if (ends("_storecnt_dscnt")) {
    limits.set(Counter::Store, value >> 8 & 0x3f), limits.set(Counter::Ds, value & 0x3f);
  } else if (ends("_loadcnt") || ends("_vmcnt")) {
    limits.set(Counter::Load, value);
  } else if (ends("_storecnt") || ends("_vscnt")) {
    limits.set(Counter::Store, value);
  } else if (ends("_dscnt")) {
    limits.set(Counter::Ds, value);
  } else if (ends("_kmcnt")) {
    limits.set(Counter::Scalar, value);
  } else if (ends("_lgkmcnt")) {
    limits.set(Counter::Ds, value), limits.set(Counter::Scalar, value);
  } else if (ends("_expcnt")) {
    limits.set(Counter::Export, value);
  }  // _samplecnt and _bvhcnt count image operations, which no entry issues
  if (name.find("lgkmcnt") == std::string::npos && i.ops > 1 && i.op[0].kind == Kind::Sgpr)
    return "a wait that adds a register to its immediate is not implemented";
  i.extra64 = limits.packed;
  return {};
}

std::string bind_wait_idle(Inst& i, const ArchTraits&) {
  Limits limits;
  for (int k = 0; k < kCounters; ++k) limits.set(Counter(k), 0);
  i.extra64 = limits.packed;
  return {};
}

}  // namespace emu
