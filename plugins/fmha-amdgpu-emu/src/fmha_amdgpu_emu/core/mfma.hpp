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

// 16 blocks of 4 x 4: block lane / 4, row r, column lane % 4.
template <int Pack>
inline void multiply_small(const Inst& i, const Row* a, const Row* b, Row* d) {
  for (int r = 0; r < 4; ++r) {
    Float* sum = floats(d[r]);
    for (int q = 0; q < Pack; ++q) {
      const Float *left = floats(a[q]), *right = floats(b[q]);
      for (int block = 0; block < 16; ++block) {
        const float x = left[4 * block_of_a(i, block) + r];
        for (int j = 0; j < 4; ++j) sum[4 * block + j] = sum[4 * block + j] + x * right[4 * block + j];
      }
    }
  }
}

template <int N, int K, int Blocks> struct Shape {
  static constexpr int kPack = N * K * Blocks / 64;            // elements of A in a lane
  static constexpr int kGroups = Blocks == 1 ? 64 / N : 1;     // lane groups with different k
  static constexpr int kResults = N * N * Blocks / 64;         // registers of D
};

// D += A B in all blocks; `a` and `b` are kPack rows, `d` kResults registers.
template <int N, int K, int Blocks>
inline void multiply(const Inst& i, const Row* a, const Row* b, Row* d) {
  using S = Shape<N, K, Blocks>;
  if constexpr (N == 4) {
    multiply_small<S::kPack>(i, a, b, d);
  } else {
    for (int block = 0; block < Blocks; ++block)
      multiply_block<N, S::kGroups, S::kPack>(a, b, N * block_of_a(i, block), N * block, d + block * (N * N / 64));
  }
}

}  // namespace emu::matrix
