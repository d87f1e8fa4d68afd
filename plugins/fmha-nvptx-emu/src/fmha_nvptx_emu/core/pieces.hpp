// Operands of wgmma and tcgen05.mma in shared memory, in pieces of 16 bytes.
#pragma once

#include <algorithm>

#include "lanes.hpp"

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

}  // namespace ptx
