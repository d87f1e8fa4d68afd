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

  // Reads all of them to `to`, of which the first `needed` bytes count; zeros, with a finding, outside of the block's shared memory.
  void read(Warp& w, const Inst& i, int lane, Block& block, unsigned needed, uint8_t (*to)[16]) {
    SharedMemory& shared = block.shared;
    std::fill_n(whole, count, true);
    uint32_t last = 0;
    for (unsigned n = 0; n < count; ++n) last = std::max(last, at[n]);
    const bool inside = last + 16 <= shared.bytes(), checks = w.block->checks;
    const uint8_t* from = shared.data();
    if (inside && !emulation::careful && (!checks || (needed == 16 && &block == w.block))) {
      if (checks) shared.read_pieces(w, i, std::max(lane, 0), at, count, whole);
      for (unsigned n = 0, all = count; n < all; ++n) std::memcpy(to[n], from + at[n], 16);  // `count` might be in `to`
      return;
    }
    for (unsigned n = 0; n < count; ++n) {
      if (at[n] + 16 > shared.bytes()) {
        w.block->launch->report->add(Finding::OutOfBounds, w, i, lane, [&] {
          return "a matrix descriptor leads to " + hex(at[n]) + " of " + std::to_string(shared.bytes()) + " bytes of shared memory";
        });
        std::memset(to[n], 0, 16);
        continue;
      }
      if (checks)
        whole[n] = &block == w.block ? shared.read_later(w, i, std::max(lane, 0), at[n], needed, false) : shared.read_peer(w, i, lane, at[n], needed);
      std::memcpy(to[n], from + at[n], 16);
    }
  }
};

// Eight rows of eight elements of two bytes, `given` by columns (every `step`-th piece); `to` are rows of 32 bytes.
#ifdef PTX_AVX512
inline void turn_eight_by_vectors(const uint8_t (*given)[16], unsigned step, uint8_t (*to)[32]) {
  static const auto places = [] {
    struct Table {
      alignas(64) uint16_t at[64];
    } out{};
    for (unsigned n = 0; n < 64; ++n) out.at[n] = uint16_t(n % 8 * 8 + n / 8);
    return out;
  }();
  const auto four = [&](unsigned k) {
    const auto one = [&](unsigned at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(given[at * step])); };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(one(k)), one(k + 1), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_inserti128_si256(_mm256_castsi128_si256(one(k + 2)), one(k + 3), 1), 1);
  };
  const __m512i low = four(0), high = four(4);
  alignas(64) uint8_t rows[8][16];
  for (unsigned z = 0; z < 2; ++z)
    _mm512_store_si512(rows + 4 * z, _mm512_permutex2var_epi16(low, _mm512_load_si512(places.at + 32 * z), high));
  for (unsigned r = 0; r < 8; ++r) std::memcpy(to[r], rows[r], 16);
}
#endif
inline void turn_eight(const uint8_t (*given)[16], unsigned step, uint8_t (*to)[32]) {
#ifdef PTX_AVX512
  if (!emulation::careful) return turn_eight_by_vectors(given, step, to);
#endif
  for (unsigned r = 0; r < 8; ++r)
    for (unsigned k = 0; k < 8; ++k) std::memcpy(to[r] + 2 * k, given[k * step] + 2 * r, 2);
}

}  // namespace ptx
