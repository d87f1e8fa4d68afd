// Where a load straight to LDS puts its data (CDNA3 ISA 9.1.9 "Memory buffer load to LDS": LDS_ADDR = LDSbase +
// M0[15:0] + inst_offset + ThreadID x 4). CDNA4 adds three and four dwords a lane, and its LDS needs more than 16
// address bits. Lanes that are off by EXEC write nothing. A lane out of a buffer's range writes the zeros that it read.
#include <string>

#include "global.hpp"

namespace emu {

namespace {

// The lanes whose dwords there differ. They lie side by side from `place` on and take the new ones.
template <int Dwords> uint64_t replaced(uint8_t* place, const Row* rows, int lanes) {
  Row before[Dwords];
  if constexpr (Dwords == 1) std::memcpy(before, place, size_t(4 * lanes));
  else dwords_to_rows<Dwords>([&](int l) { return place + 4 * Dwords * l; }, lanes, before);
  uint64_t changed = 0;
  for (int d = 0; d < Dwords; ++d) changed |= different(before[d].x, rows[d].x);
  if constexpr (Dwords == 1) return std::memcpy(place, rows, size_t(4 * lanes)), changed;
  uint32_t values[kLanes * Dwords];
  rows_to_dwords<Dwords>(rows, lanes, values);
  std::memcpy(place, values, size_t(4 * Dwords * lanes));
  return changed;
}

}  // namespace

void rows_to_lds(Wave& w, const Inst& i, const Row* rows, int dwords, uint64_t mask) {
  const uint32_t bytes = uint32_t(4 * dwords);
  const uint32_t base = (w.s[kM0] & ((1u << w.arch->m0_lds_bits) - 1)) + uint32_t(i.mod.offset);
  uint8_t* const lds = w.group ? w.group->lds.data() : nullptr;
  const size_t size = w.group ? w.group->lds.size() : 0;
  const uint32_t sequence = lds_access_begins(w);
  uint32_t addresses[kLanes];
  uint64_t inside = 0, changed = 0;
  for (int l = 0; l < kLanes; ++l) addresses[l] = base + uint32_t(l) * bytes;
  if (mask == w.full && base + uint64_t(bytes) * uint32_t(w.lanes) <= size) {
    inside = mask;
    changed = mask & (dwords == 1   ? replaced<1>(lds + base, rows, w.lanes)
                      : dwords == 3 ? replaced<3>(lds + base, rows, w.lanes)
                                    : replaced<4>(lds + base, rows, w.lanes));
  } else each_lane(mask, [&](int l) {
    if (uint64_t(addresses[l]) + bytes <= size) {
      for (int d = 0; d < dwords; ++d) {
        uint8_t* const place = lds + addresses[l] + 4 * d;
        uint32_t before;
        std::memcpy(&before, place, 4);
        changed |= uint64_t(before != rows[d].x[l]) << l;
        std::memcpy(place, &rows[d].x[l], 4);
      }
      inside |= 1ull << l;
    } else if (w.launch && w.launch->report) {
      w.launch->report->add(Finding::OutOfBounds, w, i, l, [&] {
        return "lane " + std::to_string(l) + " loads " + std::to_string(bytes) + " bytes to " +
               std::to_string(addresses[l]) + " of the workgroup's LDS, which has " + std::to_string(size) + " bytes";
      });
    }
  });
  lds_written(w, i, changed, addresses, bytes, sequence, true);
  lds_rewritten(w, i, inside & ~changed, addresses, bytes, sequence, true);
  counts().lds_written += moved(inside, bytes);
  issue(w, Counter::Load, {.to_lds = true, .sequence = sequence});
}

}  // namespace emu
