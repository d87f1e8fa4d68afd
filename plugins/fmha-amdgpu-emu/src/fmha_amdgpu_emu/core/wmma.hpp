// What the 16 x 16 products of RDNA share: the layout of C and D, negation, integers. Waves have 32 lanes.
//
// D on gfx11: register r holds row 2 r + lane / 16. A result of 16 bits takes a half of it; bit 2 of OP_SEL chooses the
// upper half, for C too, and the other half of D stays. D on gfx12: register r holds row 8 (lane / 16) + r; two rows of
// 16-bit results share a register (RDNA3 ISA 7.9, RDNA4 ISA 7.12; AMD matrix instruction calculator). The column is
// lane mod 16 on both.
#pragma once

#include <algorithm>

#include "floats.hpp"
#include "matrix.hpp"

namespace emu::matrix {

enum class Out : uint8_t { Float, Half, Brain, Int };

// A 16 x 16 matrix of results in registers from `reg` on, row by row.
struct Tile {
  Wave& w;
  int reg;
  Out out;
  int upper;  // gfx11: results of 16 bits are in the upper halves

  bool wide() const { return out == Out::Float || out == Out::Int; }
  // The 16 words that hold a row, and the bit at which a 16-bit result begins in each.
  uint32_t* row(int r) const {
    if (w.arch->wmma_repeats) return w.v[reg + r / 2].x + 16 * (r % 2);
    return w.v[reg + (wide() ? r % 8 : r % 8 / 2)].x + 16 * (r / 8);
  }
  int bit(int r) const { return w.arch->wmma_repeats ? 16 * upper : 16 * (r % 2); }

  void get(int r, uint32_t* to) const {
    const uint32_t* from = row(r);
    if (wide()) return void(std::memcpy(to, from, 16 * sizeof *to));
    const int at = bit(r);
    for (int j = 0; j < 16; ++j) to[j] = from[j] >> at & 0xffff;
  }
  void put(int r, const uint32_t* from) const {
    uint32_t* to = row(r);
    if (wide()) return void(std::memcpy(to, from, 16 * sizeof *to));
    const int at = bit(r);
    for (int j = 0; j < 16; ++j) to[j] = (to[j] & ~(0xffffu << at)) | from[j] << at;
  }
};

inline float number_of(uint32_t bits, Out out) {
  if (out == Out::Half) return half_to_float(bits);
  return out == Out::Brain ? brain_to_float(bits) : as_float(bits);
}

// Rows of results as they are stored.
struct Results {
  uint32_t x[16][16];
};

inline void take(const Tile& from, Results& to) {
  for (int r = 0; r < 16; ++r) from.get(r, to.x[r]);
}

// The rows that multiply_block keeps: row 4 (lane / 16) + register.
inline void to_sum(const Results& from, Out out, Row* sum) {
  for (int r = 0; r < 16; ++r) {
    uint32_t* to = sum[r % 4].x + 16 * (r / 4);
    if (out == Out::Float) std::memcpy(to, from.x[r], sizeof from.x[r]);
    else
      for (int j = 0; j < 16; ++j) to[j] = bits_of(number_of(from.x[r][j], out));
  }
}

// Turns sums into results. Floats round once, to nearest even. Integers are added to those of C; they wrap, or saturate
// with CLAMP.
inline void put_results(const Inst& i, const Tile& to, const Row* sum, const Results& c) {
  for (int r = 0; r < 16; ++r) {
    uint32_t row[16];
    const Float* from = floats(sum[r % 4]) + 16 * (r / 4);
    if (to.out == Out::Float) {
      to.put(r, sum[r % 4].x + 16 * (r / 4));
      continue;
    }
    for (int j = 0; j < 16; ++j) {
      if (to.out == Out::Int) {
        const int64_t exact = int64_t(int32_t(c.x[r][j])) + int64_t(from[j]);
        row[j] = uint32_t(i.mod.clamp ? std::clamp<int64_t>(exact, INT32_MIN, INT32_MAX) : exact);
      } else {
        row[j] = to.out == Out::Half ? float_to_half(from[j]) : float_to_brain(from[j]);
      }
    }
    to.put(r, row);
  }
}

// NEG_LO and NEG_HI of A (operand 0) and B (1): elements in lower and upper halves of registers change sign.
inline void negate(const Inst& i, int operand, int count, Row* rows) {
  for (int q = 0; q < count; ++q) {
    if (!((q % 2 ? i.mod.neg_hi : i.mod.neg_lo) >> operand & 1)) continue;
    for (int l = 0; l < kLanes; ++l) rows[q].x[l] ^= 0x80000000u;
  }
}

// Bits 0 and 1 of NEG_LO in integer products: A and B are signed.
template <int Bits>
inline void widen_integer(const Wave& w, const Inst& i, int operand, int count, Row* to) {
  const int reg = i.op[1 + operand].reg, registers = count * Bits / 32;
  if (i.mod.neg_lo >> operand & 1) widen<Integer<Bits, true>>(w, reg, registers, to);
  else widen<Integer<Bits, false>>(w, reg, registers, to);
}

inline void only_32(const Wave& w) {
  if (w.lanes != 32) throw Unexecutable{"matrix products of waves of 64 lanes are not implemented"};
}

}  // namespace emu::matrix
