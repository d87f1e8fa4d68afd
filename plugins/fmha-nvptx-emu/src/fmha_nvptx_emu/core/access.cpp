#include "access.hpp"

#include <algorithm>

#include "cluster.hpp"
#include "widened.hpp"

namespace ptx {

void addresses(Warp& w, const Inst& i, Slot base, uint32_t mask, Lanes& out) {
  const uint64_t by = uint64_t(i.imm);
  if (i.wide & 0x80) {
    const uint32_t* a = reinterpret_cast<const uint32_t*>(w.row(base));
    for (int l = 0; l < 32; ++l) out.at[l] = uint32_t(a[l] + uint32_t(by));
  } else {
    const uint64_t* a = reinterpret_cast<const uint64_t*>(w.row(base));
    for (int l = 0; l < 32; ++l) out.at[l] = a[l] + by;
  }
  if (w.block->clustered && (i.space == Space::Shared || i.space == Space::Generic))
    for (int l = 0; l < 32; ++l)
      if (i.space == Space::Shared || out.at[l] >> 56 == kSharedWindow >> 56) out.at[l] = seen_from(*w.block, out.at[l]);
  if (w.block->checks && (mask & ~w.defined[base.id])) require_defined(w, i, base, mask, "an address");
}

namespace {

// Calls f with the address of each lane; for all lanes in a loop that compilers make vectors of.
template <class F> void over(uint32_t mask, const Lanes& a, F f) {
  if (mask != kAll) return each_lane(mask, [&](int l) { f(a.at[l]); });
  for (int l = 0; l < 32; ++l) f(a.at[l]);
}

bool within(const Range& r, uint64_t at, uint32_t bytes, bool write) {
  return at >= r.start && at < r.end && bytes <= r.end - at && (r.writable || !write);
}

bool known(Block& b, uint64_t at, uint32_t bytes, bool write, uint64_t epoch) {
  for (const Range& r : b.ranges)
    if (r.epoch == epoch && within(r, at, bytes, write)) return true;
  const Range found = memory().around(at);
  if (!within(found, at, bytes, write)) return false;
  b.ranges[b.last_range++ % 4] = found;
  return true;
}

void misaligned(Warp& w, const Inst& i, int lane, uint64_t at, uint32_t bytes) {
  w.block->launch->report->add(Finding::Misaligned, w, i, lane, [&] {
    return of_lane(lane) + ": " + hex(at) + " is not a multiple of " + std::to_string(bytes);
  });
}

}  // namespace

bool plainly_global(const Block& b, uint32_t mask, const Lanes& a, uint32_t bytes, bool write) {
  uint64_t low = a.at[__builtin_ctz(mask)], high = low, bits = low;
#ifdef PTX_AVX512
  const __m512i first = _mm512_set1_epi64(int64_t(low));
  __m512i lows = first, highs = first, several = first;
  for (int l = 0; l < 32; l += 8) {
    const __m512i at = _mm512_mask_loadu_epi64(first, __mmask8(mask >> l), a.at + l);
    lows = _mm512_min_epu64(lows, at), highs = _mm512_max_epu64(highs, at), several = _mm512_or_si512(several, at);
  }
  low = _mm512_reduce_min_epu64(lows), high = _mm512_reduce_max_epu64(highs), bits = uint64_t(_mm512_reduce_or_epi64(several));
#else
  over(mask, a, [&](uint64_t at) { low = std::min(low, at), high = std::max(high, at), bits |= at; });
#endif
  if (bits & (bytes - 1)) return false;
  const uint64_t epoch = memory().epoch();
  return std::any_of(std::begin(b.ranges), std::end(b.ranges), [&](const Range& r) {
    return r.epoch == epoch && low >= r.start && high < r.end && bytes <= r.end - high && (r.writable || !write);
  });
}

uint32_t global_lanes(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes, bool write) {
  if (plainly_global(*w.block, mask, a, bytes, write)) return mask;
  const uint64_t epoch = memory().epoch();
  uint32_t good = 0;
  each_lane(mask, [&](int l) {
    if (a.at[l] & (bytes - 1)) return misaligned(w, i, l, a.at[l], bytes);
    if (known(*w.block, a.at[l], bytes, write, epoch)) return void(good |= 1u << l);
    w.block->launch->report->add(Finding::OutOfBounds, w, i, l, [&] {
      const Range r = memory().around(a.at[l]);
      return of_lane(l) + (write ? " writes " : " reads ") + std::to_string(bytes) + " bytes at " + hex(a.at[l]) +
             (write && r.end && !r.writable ? ", which is read-only: " : ": ") + memory().nearest(a.at[l]);
    });
  });
  return good;
}

uint32_t limited_lanes(Warp& w, const Inst& i, uint32_t mask, const Lanes& a, uint32_t bytes, uint64_t size, const char* space,
                       uint32_t align) {
  if (!align) align = bytes;
  const uint64_t most = bytes <= size ? size - bytes : 0;
  uint64_t outside = bytes > size;
  over(mask, a, [&](uint64_t at) { outside |= (at & (align - 1)) | uint64_t(at > most); });
  if (!outside) return mask;
  uint32_t good = 0;
  each_lane(mask, [&](int l) {
    if (a.at[l] & (align - 1)) return misaligned(w, i, l, a.at[l], align);
    if (bytes <= size && a.at[l] <= size - bytes) return void(good |= 1u << l);
    w.block->launch->report->add(Finding::OutOfBounds, w, i, l, [&] {
      return of_lane(l) + ": " + std::to_string(bytes) + " bytes at " + hex(a.at[l]) + " of " + std::to_string(size) + " bytes of " +
             space + " memory";
    });
  });
  return good;
}

// Sectors of 32 bytes that a warp's access touches.
void count_sectors(Warp& w, uint32_t mask, const Lanes& a, uint32_t bytes) {
  const uint64_t each = bytes > 32 ? bytes / 32 : 1;
  if (mask == kAll) {  // mostly the lanes' addresses ascend
    uint64_t falls = 0, steps = 0;
    for (int l = 1; l < 32; ++l) {
      const uint64_t step = (a.at[l] >> 5) - (a.at[l - 1] >> 5);
      falls |= step, steps += step != 0;
    }
    if (int64_t(falls) >= 0) return void(w.block->counts.sectors += (1 + steps) * each);
  }
  uint64_t sectors[32];
  unsigned n = 0;
  each_lane(mask, [&](int l) {
    const uint64_t s = a.at[l] >> 5;
    if (!n || sectors[n - 1] != s) sectors[n++] = s;
  });
  if (n > 1 && !std::is_sorted(sectors, sectors + n)) std::sort(sectors, sectors + n);
  w.block->counts.sectors += uint64_t(std::unique(sectors, sectors + n) - sectors) * each;
}

// Shared memory has 32 banks of 4 bytes. Wide accesses take several phases, of as many lanes as make 128 bytes. A phase
// costs as many cycles as the most loaded bank has different words.
void count_conflicts(Warp& w, uint32_t mask, const Lanes& a, uint32_t bytes) {
  const unsigned lanes = bytes >= 16 ? 8 : bytes == 8 ? 16 : 32, words = bytes >= 4 ? bytes / 4 : 1;
  uint64_t extra = 0;
  uint32_t banks = 0;
  ++w.block->counts.shared_accesses;
  if (bytes == 16 && mask == kAll) {  // eight lanes are apart if the sum of their banks' bits is 255
    uint8_t bits[32];
    for (int l = 0; l < 32; ++l) bits[l] = uint8_t(1u << a.at[l] / 16 % 8);
    uint64_t sums[4], others = 0;
    std::memcpy(sums, bits, sizeof sums);
    for (const uint64_t sum : sums) others |= (sum * 0x0101010101010101u >> 56) ^ 255;
    if (!others) return;
  }
  for (unsigned end = 8; end <= 32; end += 8) {
    for (unsigned l = end - 8; l < end; ++l) banks |= (mask >> l & 1) << a.at[l] / 4 % 32;
    if (end % lanes) continue;
    const uint32_t phase = uint32_t(mask & (lanes == 32 ? kAll : ((1u << lanes) - 1) << (end - lanes)));
    const bool apart = __builtin_popcount(banks) == __builtin_popcount(phase);
    banks = 0;
    if (apart) continue;
    uint64_t seen[32] = {};
    bool clash = false;
    each_lane(phase, [&](int l) {
      const uint64_t word = a.at[l] / 4;
      uint64_t& bank = seen[word % 32];
      clash |= bank && bank != word + 1;
      bank = word + 1;
    });
    if (!clash) continue;
    uint64_t of_bank[32][32];
    unsigned count[32] = {}, most = 1;
    each_lane(phase, [&](int l) {
      for (unsigned k = 0; k < words; ++k) {
        const uint64_t word = a.at[l] / 4 + k;
        const unsigned bank = word % 32;
        if (std::find(of_bank[bank], of_bank[bank] + count[bank], word) != of_bank[bank] + count[bank]) continue;
        if (count[bank] < 32) of_bank[bank][count[bank]++] = word;
        most = std::max(most, count[bank]);
      }
    });
    extra += most - 1;
  }
  w.block->counts.conflicts += extra;
}

namespace {

void conflict(Warp& w, const Inst& i, int lane, uint64_t at, int64_t other) {
  w.block->launch->report->add(Finding::WriteConflict, w, i, lane, [&] {
    return of_lane(lane) + " writes " + hex(at) + ", which block " + std::to_string(other) +
           " wrote with another value, and nothing orders the two";
  });
}

}  // namespace

void write_global(Warp& w, const Inst& i, int lane, uint64_t at, uint32_t bytes, const uint8_t* values) {
  if (!w.block->checks) return void(std::memcpy(reinterpret_cast<void*>(at), values, bytes));
  const int64_t other = w.block->launch->writers->write(w.block->number, at, bytes, values);
  if (other >= 0) conflict(w, i, lane, at, other);
}

void write_global(Warp& w, const Inst& i, uint32_t lanes, const uint64_t* at, uint32_t bytes, const uint8_t (*values)[32]) {
  if (!w.block->checks) return each_lane(lanes, [&](int l) { std::memcpy(reinterpret_cast<void*>(at[l]), values[l], bytes); });
  int64_t other[32];
  const uint32_t found = w.block->launch->writers->write_lanes(w.block->number, lanes, at, bytes, values, other);
  each_lane(found, [&](int l) { conflict(w, i, l, at[l], other[l]); });
}

}  // namespace ptx
