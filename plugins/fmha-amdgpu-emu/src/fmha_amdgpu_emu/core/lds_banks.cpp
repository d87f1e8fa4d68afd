// Bank conflicts of LDS accesses.
//
// LDS has 32 banks of one dword (gfx950: 64). A bank serves one dword a cycle, for any number of lanes that want it. An
// access of a wave proceeds in phases; each phase takes as many lanes as fill the banks, and as many cycles as its
// busiest bank has different dwords (CDNA3 ISA 10 "Local Data Share"; ROCm documentation, CK Tile, "LDS bank
// conflicts", which also names the lanes of ds_read_b128's phases on the CDNA GPUs with 32 banks). The count has the
// cycles beyond one a phase. This is a model: nobody compared it with the hardware's counter.
#include <array>

#include "lds.hpp"

namespace emu::lds {

namespace {

// Lanes in the order in which phases take them: ds_read_b128 pairs lanes 0-3 with 20-23, 4-7 with 16-19, and so on.
constexpr std::array<uint8_t, kLanes> wide_read_order() {
  constexpr uint8_t starts[16] = {0, 20, 4, 16, 8, 28, 12, 24, 32, 52, 36, 48, 40, 60, 44, 56};
  std::array<uint8_t, kLanes> out{};
  for (int k = 0; k < kLanes; ++k) out[k] = uint8_t(starts[k / 4] + k % 4);
  return out;
}
constexpr auto kWideRead = wide_read_order();

// The requests of one phase by bank: the different units (of `bytes`, aligned) that lanes want.
struct Phase {
  uint32_t first[64];
  uint8_t count[64] = {};
  uint32_t others[128];  // further units: a phase has at most 64 lanes of a dword, or 16 of three
  uint8_t bank_of_other[128];
  int other_count = 0;
  uint32_t busiest = 0;

  void ask(uint32_t bank, uint32_t unit, Same same) {
    if (count[bank] == 0) {
      first[bank] = unit;
    } else if (same == Same::Free) {
      if (first[bank] == unit) return;
      for (int k = 0; k < other_count; ++k)
        if (bank_of_other[k] == bank && others[k] == unit) return;
      bank_of_other[other_count] = uint8_t(bank);
      others[other_count++] = unit;
    }
    if (++count[bank] > busiest) busiest = count[bank];
  }
};

// The cost of an access of all lanes, by their distances from the first lane. A kernel has few such patterns: in a loop, in its
// unrolled copies and in all waves they are the same, only the banks rotate. So they stay close, and an instruction keeps no
// more than the number of its last one.
struct Pattern {
  uint32_t kind = 0;  // of access, and where the first address lies in its unit
  uint32_t cycles = 0;
  uint32_t apart[kLanes];

  bool holds(uint32_t wanted, const uint32_t* address, int lanes) const {
    uint32_t other = 0;
    if (kind == wanted) EMU_LANES_OF(lanes) other |= (address[l] - address[0]) ^ apart[l];
    return kind == wanted && !other;
  }
};

struct Patterns {
  static constexpr uint32_t kMost = 256;
  Pattern kept[kMost];
  uint32_t next = 0;           // the place of the next new one
  uint16_t last[1024][4] = {}; // of an instruction and a wave
};

uint32_t worked_out(const Wave& w, const uint32_t* address, uint64_t mask, uint32_t bytes, bool read, Same same) {
  const uint32_t size = bytes <= 4 ? 4 : bytes;
  const bool aligned = (size & (size - 1)) == 0;
  const uint32_t banks = uint32_t(w.arch->facts.lds_banks);
  const uint32_t dwords = size / 4, lanes = banks / (dwords == 3 ? 4 : dwords);
  const bool ordered = read && dwords == 4 && w.arch->pairs_b128_phases;
  uint32_t cycles = 0;
  for (uint32_t from = 0; from < uint32_t(w.lanes); from += lanes) {
    Phase phase;
    for (uint32_t k = from; k < from + lanes && k < uint32_t(w.lanes); ++k) {
      const uint32_t lane = ordered ? kWideRead[k] : k;
      if (!(mask >> lane & 1)) continue;
      const uint32_t at = address[lane];
      if (aligned && at % size == 0) {
        phase.ask(at / size % (banks / dwords) * dwords, at / 4, same);
      } else {
        const uint32_t last = (at + bytes - 1) / 4;
        for (uint32_t word = at / 4; word <= last; ++word) phase.ask(word % banks, word, same);
      }
    }
    if (phase.busiest > 1) cycles += phase.busiest - 1;
  }
  return cycles;
}

}  // namespace

uint32_t conflict_cycles(const Wave& w, const Inst& i, const uint32_t* address, uint64_t mask, uint32_t bytes, bool read,
                         Same same) {
  if (mask != w.full) return worked_out(w, address, mask, bytes, read, same);
  static thread_local Patterns patterns;
  uint16_t& last = patterns.last[reinterpret_cast<uintptr_t>(&i) / sizeof(Inst) % 1024][w.index % 4];
  const uint32_t kind = uint32_t(w.arch - kArchs + 1) << 28 | uint32_t(same) << 25 | uint32_t(read) << 24 | uint32_t(w.lanes) << 16 |
                        (address[0] & 15) << 8 | bytes;
  if (patterns.kept[last].holds(kind, address, w.lanes)) [[likely]] return patterns.kept[last].cycles;
  for (last = 0; last < Patterns::kMost; ++last)
    if (patterns.kept[last].holds(kind, address, w.lanes)) return patterns.kept[last].cycles;
  last = uint16_t(patterns.next++ % Patterns::kMost);
  Pattern& made = patterns.kept[last];
  for (int l = 0; l < kLanes; ++l) made.apart[l] = address[l] - address[0];
  made.kind = kind;
  return made.cycles = worked_out(w, address, mask, bytes, read, same);
}

}  // namespace emu::lds
