// Operands of wgmma and tcgen05.mma in shared memory, in pieces of 16 bytes.
#pragma once

#include <algorithm>

#include "widened.hpp"

namespace ptx {

struct Pieces {
  static constexpr unsigned kMost = 512;
  unsigned count = 0;
  uint32_t at[kMost];
  bool whole[kMost];  // all bytes were written
  alignas(64) uint8_t data[kMost][16];

  // Reads all of them, of which the first `needed` bytes count; zeros, with a finding, outside of the block's shared memory.
  void read(Warp& w, const Inst& i, int lane, Block& block, unsigned needed) {
    SharedMemory& shared = block.shared;
    std::fill_n(whole, count, true);
    uint32_t last = 0;
    for (unsigned n = 0; n < count; ++n) last = std::max(last, at[n]);
    const bool inside = last + 16 <= shared.bytes(), checks = w.block->checks;
    const bool together = inside && checks && needed == 16 && &block == w.block;
    if (together) shared.read_pieces(w, i, std::max(lane, 0), at, count, whole);
    for (unsigned n = 0; n < count; ++n) {
      if (!inside && at[n] + 16 > shared.bytes()) {
        w.block->launch->report->add(Finding::OutOfBounds, w, i, lane, [&] {
          return "a matrix descriptor leads to " + hex(at[n]) + " of " + std::to_string(shared.bytes()) + " bytes of shared memory";
        });
        std::memset(data[n], 0, 16);
        continue;
      }
      if (checks && !together)
        whole[n] = &block == w.block ? shared.read_later(w, i, std::max(lane, 0), at[n], needed, false) : shared.read_peer(w, i, lane, at[n], needed);
      std::memcpy(data[n], shared.data() + at[n], 16);
    }
  }
};

// Eight rows of eight elements of two bytes, `given` by columns (every `step`-th piece); `to` are rows of 32 bytes.
inline void turn_eight(const uint8_t (*given)[16], unsigned step, uint8_t (*to)[32]) {
  alignas(64) uint8_t from[8][16];
  for (unsigned k = 0; k < 8; ++k) std::memcpy(from[k], given[k * step], 16);
#ifdef PTX_AVX512
  static const auto places = [] {
    struct Table {
      alignas(64) uint16_t at[64];
    } out{};
    for (unsigned n = 0; n < 64; ++n) out.at[n] = uint16_t(n % 8 * 8 + n / 8);
    return out;
  }();
  const __m512i low = _mm512_loadu_si512(from), high = _mm512_loadu_si512(from + 4);
  alignas(64) uint8_t rows[8][16];
  for (unsigned z = 0; z < 2; ++z)
    _mm512_store_si512(rows + 4 * z, _mm512_permutex2var_epi16(low, _mm512_load_si512(places.at + 32 * z), high));
  for (unsigned r = 0; r < 8; ++r) std::memcpy(to[r], rows[r], 16);
#else
  for (unsigned r = 0; r < 8; ++r)
    for (unsigned k = 0; k < 8; ++k) std::memcpy(to[r] + 2 * k, from[k] + 2 * r, 2);
#endif
}

}  // namespace ptx
