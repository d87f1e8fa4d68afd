// What the dense matrix products of CDNA share: blocks, broadcasts of A and permutes of B.
#pragma once

#include "matrix.hpp"

namespace emu::matrix {

// The lanes of B that BLGP chooses (CDNA3 ISA 7.1, "Broadcasting values"). 1 and 2: all lanes use the first or the
// second 32. 3: every lane uses the one 16 further down, cyclically. 4 to 7: all lanes use one group of 16.
inline void permute_lanes(Row* rows, int count, int blgp) {
  if (!blgp) return;
  for (int r = 0; r < count; ++r) {
    const Row from = rows[r];
    for (int l = 0; l < kLanes; ++l) {
      int lane = l;
      if (blgp == 1 || blgp == 2) lane = l % 32 + 32 * (blgp - 1);
      else if (blgp == 3) lane = (l + 16) % 64;
      else lane = l % 16 + 16 * (blgp - 4);
      rows[r].x[l] = from.x[lane];
    }
  }
}

// The block of A that block `b` multiplies. CBSZ makes groups of 2^CBSZ blocks; all blocks of a group use the one that
// ABID names.
inline int block_of_a(const Inst& i, int b) {
  const int size = 1 << i.mod.cbsz;
  return i.mod.cbsz ? (b & ~(size - 1)) + (i.mod.abid & (size - 1)) : b;
}

struct Shape {
  int n, k, blocks;

  constexpr int pack() const { return n * k * blocks / 64; }                    // elements of A in a lane
  constexpr Depth depth() const { return {blocks == 1 ? 64 / n : 1, pack()}; }
  constexpr int results() const { return n * n * blocks / 64; }                 // registers of D
};
constexpr int kMostPack = 32;  // of any shape

// D += A B in all blocks; `a` and `b` are pack() rows, `d` results() registers (mfma.cpp).
void multiply(const Inst& i, const Shape& shape, const Row* a, const Row* b, Row* d);

}  // namespace emu::matrix
