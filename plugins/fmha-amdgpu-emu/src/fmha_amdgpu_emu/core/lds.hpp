// One LDS instruction's accesses: bounds, bytes, bank conflicts, and what goes into the books.
//
// Addresses are in bytes. Dwords and wider need no alignment (unaligned access mode, as HSA sets it). An access that
// does not lie entirely in the workgroup's allocation reads zero or is dropped, and is a finding (CDNA3 ISA 10.3.1,
// RDNA3 ISA 12.2 "out-of-range"; M0 limits nothing since gfx9).
#pragma once

#include <bit>
#include <cstdio>

#include "lanes.hpp"
#include "launch.hpp"

namespace emu::lds {

template <class F> inline void each_lane(uint64_t mask, F f) {
  for (; mask; mask &= mask - 1) f(std::countr_zero(mask));
}

// The cost of two accesses of a phase to the same dword: nothing for reads and writes, a cycle each for atomics.
enum class Same : uint8_t { Free, Costs };

// Cycles beyond those of an access without conflicts (lds_banks.cpp).
uint32_t conflict_cycles(const Wave& w, const Inst& i, const uint32_t* address, uint64_t mask, uint32_t bytes, bool read,
                         Same same);

// Lanes are masks. Returns the lanes whose bytes lie in the LDS.
class Access {
 public:
  Access(Wave& w, const Inst& i)
      : wave_(w), inst_(i), lds_(w.group->lds), tracked_(w.launch->options.track),
        sequence_(tracked_ ? lds_access_begins(w) : 0) {}

  uint64_t reads(uint64_t mask, const uint32_t* at, uint32_t bytes) {
    const uint64_t inside = bounded(mask, at, bytes, "read");
    if (tracked_) lds_read(wave_, inst_, inside, at, bytes, sequence_);
    return inside;
  }

  // `values`: `Bytes` for each lane, lane after lane.
  template <uint32_t Bytes> void write(uint64_t mask, const uint32_t* at, const void* values) {
    const uint64_t inside = bounded(mask, at, Bytes, "written");
    const uint8_t* from = static_cast<const uint8_t*>(values);
    if constexpr (Bytes == 4 || Bytes == 8 || Bytes == 16)
      if (write_pieces<Bytes>(inside, at, from)) return;
    const uint64_t changed = changes_by<Bytes>(inside, at, from);
    if (tracked_) {
      lds_written(wave_, inst_, changed, at, Bytes, sequence_, false);
      lds_rewritten(wave_, inst_, inside & ~changed, at, Bytes, sequence_);
    }
    each_lane(changed, [&](int l) { std::memcpy(bytes_at(at[l]), from + l * Bytes, Bytes); });
  }

  // Atomics. An address must be a multiple of the size; others are dropped too.
  uint64_t changes(uint64_t mask, const uint32_t* at, uint32_t bytes) {
    const uint64_t inside = bounded(mask, at, bytes, "changed", bytes);
    if (tracked_) lds_changed(wave_, inst_, inside, at, bytes, sequence_);
    return inside;
  }

  uint8_t* bytes_at(uint32_t address) { return lds_.data() + address; }

  // From here on the destination is pending. With count 0 it is a write, which is outstanding too.
  void issued(const Operand* to, int count, uint8_t half = 3) {
    if (!tracked_) return;
    Outstanding what;
    what.half = half;
    if (to) what.first = to->reg;
    what.count = uint8_t(count);
    what.sequence = sequence_;
    issue(wave_, Counter::Ds, what);
  }

 private:
  uint64_t bounded(uint64_t mask, const uint32_t* at, uint32_t bytes, const char* how, uint32_t alignment = 1) {
    const uint64_t size = lds_.size();
    uint32_t most = 0, any = 0;  // of all lanes, those that are off too: nearly always enough to know
    for (int l = 0; l < kLanes; ++l) most = at[l] > most ? at[l] : most;
    for (int l = 0; l < kLanes; ++l) any |= at[l];
    if (most + uint64_t(bytes) <= size && any % alignment == 0) [[likely]] return mask;
    uint64_t bad = 0;
    for (int l = 0; l < kLanes; ++l) bad |= uint64_t(at[l] + uint64_t(bytes) > size || at[l] % alignment != 0) << l;
    bad &= mask;
    if (bad) [[unlikely]] report(bad, at, bytes, how);
    return mask & ~bad;
  }

  // Writes whole pieces of the first lanes, if all lanes' bytes there are others and the books have nothing to report.
  template <uint32_t Bytes> bool write_pieces(uint64_t mask, const uint32_t* at, const uint8_t* values) {
    if (mask & (mask + 1)) return false;
    uint32_t room[kLanes];
    const uint32_t* pieces = nullptr;
    const uint32_t count = pieces_of(mask, at, Bytes, pieces, room);
    using Words = uint32_t __attribute__((vector_size(16), aligned(1), may_alias));
    using Pairs = uint64_t __attribute__((vector_size(16), aligned(1), may_alias));
    using Piece = std::conditional_t<Bytes == 4, Words, Pairs>;
    const auto piece = [](const uint8_t* place) { return *reinterpret_cast<const Piece*>(place); };
    Piece kept{};
    for (uint32_t k = 0; k < count; ++k) {
      const Piece same = Piece(piece(bytes_at(pieces[k])) == piece(values + 16 * k));
      if constexpr (Bytes < 16) kept |= same;
      else kept |= Piece{} + (same[0] & same[1]);
    }
    uint64_t none[2];
    std::memcpy(none, &kept, sizeof none);
    if (!count || (none[0] | none[1]) || (tracked_ && !lds_pieces_written(wave_, pieces, count, sequence_))) return false;
    for (uint32_t k = 0; k < count; ++k) std::memcpy(bytes_at(pieces[k]), values + 16 * k, 16);
    return true;
  }

  // The lanes whose bytes there are others.
  template <uint32_t Bytes> uint64_t changes_by(uint64_t mask, const uint32_t* at, const uint8_t* values) {
    uint64_t out = 0;
#if defined(__AVX512F__)
    for (int k = 0; Bytes == 4 && k < kLanes; k += 16) {
      const __mmask16 some = __mmask16(mask >> k);
      const __m512i there = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), some, _mm512_loadu_si512(at + k), lds_.data(), 1);
      out |= uint64_t(_mm512_mask_cmpneq_epi32_mask(some, there, _mm512_loadu_si512(values + 4 * k))) << k;
    }
    if (Bytes == 4) return out;
#endif
    each_lane(mask, [&](int l) { out |= uint64_t(std::memcmp(bytes_at(at[l]), values + l * Bytes, Bytes) != 0) << l; });
    return out;
  }

  void report(uint64_t bad, const uint32_t* at, uint32_t bytes, const char* how) {
    if (!wave_.launch->report) return;
    each_lane(bad, [&](int l) {
      wave_.launch->report->add(Finding::OutOfBounds, wave_, inst_, l, [&] {
        char text[160];
        const bool outside = at[l] + uint64_t(bytes) > lds_.size();
        std::snprintf(text, sizeof text, "lane %d: %u bytes %s at LDS address 0x%x; the workgroup has 0x%zx bytes%s", l,
                      bytes, how, at[l], lds_.size(), outside ? "" : ", and atomics must be aligned");
        return std::string(text);
      });
    });
  }

  Wave& wave_;
  const Inst& inst_;
  std::vector<uint8_t>& lds_;
  const bool tracked_;
  const uint32_t sequence_;
};

// Addresses of all lanes: the register of operand k of the text plus an offset.
inline void addresses(const Wave& w, const Inst& i, int k, uint32_t offset, uint32_t* to) {
  const uint32_t* from = w.v[i.op[k].reg].x;
  for (int l = 0; l < kLanes; ++l) to[l] = from[l] + offset;
}

inline void count_read(const Wave& w, const Inst& i, const uint32_t* address, uint64_t mask, uint32_t bytes) {
  Counts& c = counts();
  c.lds_accesses += 1;
  c.lds_read += uint64_t(std::popcount(mask)) * bytes;
  c.lds_conflict_cycles += conflict_cycles(w, i, address, mask, bytes, true, Same::Free);
}

inline void count_written(const Wave& w, const Inst& i, const uint32_t* address, uint64_t mask, uint32_t bytes) {
  Counts& c = counts();
  c.lds_accesses += 1;
  c.lds_written += uint64_t(std::popcount(mask)) * bytes;
  c.lds_conflict_cycles += conflict_cycles(w, i, address, mask, bytes, false, Same::Free);
}

// Binders. There is no GDS here, and operand k must be `dwords[k]` registers (0: end).
template <int... Dwords> std::string fits(Inst& i, const ArchTraits&) {
  constexpr int sizes[] = {Dwords...};
  if (i.mod.gds) return "the global data share is not emulated";
  if (i.ops != sizeof...(Dwords)) return "the instruction's operands are not those of its entry";
  for (int k = 0; k < int(sizeof...(Dwords)); ++k)
    if (i.op[k].kind != Kind::Vgpr || i.op[k].count != sizes[k])
      return "operand " + std::to_string(k + 1) + " does not have " + std::to_string(sizes[k]) + " vector registers";
  return "";
}

}  // namespace emu::lds
