// Sums, products and fused multiply-adds of rows in binary32 and binary16, in MODE's rounding. Results still lack omod,
// clamp and denormals.
#pragma once

#include "floats.hpp"

namespace emu {

// Each operation has its result to nearest even, and the exact result (rounded to odd) for the other modes.
struct Add {
  static float at(float a, float b) { return a + b; }
  static double exact(double a, double b, int round) { return odd_sum(a, b, round); }
};
struct Sub {
  static float at(float a, float b) { return a - b; }
  static double exact(double a, double b, int round) { return odd_sum(a, -b, round); }
};
struct SubRev {
  static float at(float a, float b) { return b - a; }
  static double exact(double a, double b, int round) { return odd_sum(b, -a, round); }
};
struct Mul {
  static float at(float a, float b) { return a * b; }
  static double exact(double a, double b, int) { return a * b; }
};
struct Fma {
  static float at(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double exact(double a, double b, double c, int round) { return odd_sum(a * b, c, round); }
};

template <class Op, bool Flush, int N> inline void nearest32(uint32_t* out, const Fetched (&in)[N], int lanes) {
  const auto given = [](uint32_t x) { return as_float(Flush ? flushed32(x) : x); };
  const uint32_t *a = in[0].x, *b = in[1].x, *c = in[N - 1].x;
  EMU_LANES_OF(lanes) {
    uint32_t result;
    if constexpr (N == 2) result = bits_of(Op::at(given(a[l]), given(b[l])));
    else result = bits_of(Op::at(given(a[l]), given(b[l]), given(c[l])));
    out[l] = Flush ? flushed32(result) : result;
  }
}

// MODE has the sources and the results of binary32 flushed, which compute32 does in one pass where it rounds to nearest; omod has to
// see the results as they were.
inline bool flushes_all32(const Wave& w, const Inst& i) {
  return w.mode.flush_in32() && w.mode.flush_out32() && w.mode.round32() == kNearest && !i.mod.omod;
}

// out = op(in) in a rounding mode; NaNs are final. `flush`: of flushes_all32.
template <class Op, int N> inline void compute32(uint32_t* out, const Fetched (&in)[N], int round, int lanes, bool flush = false) {
  const uint32_t *a = in[0].x, *b = in[1].x, *c = in[N - 1].x;
  if (flush) nearest32<Op, true>(out, in, lanes);
  else if (round == kNearest) nearest32<Op, false>(out, in, lanes);
  else {
    for (int l = 0; l < lanes; ++l) {
      double exact;
      if constexpr (N == 2) exact = Op::exact(as_float(a[l]), as_float(b[l]), round);
      else exact = Op::exact(as_float(a[l]), as_float(b[l]), as_float(c[l]), round);
      out[l] = bits_of(round_to_single(exact, round));
    }
  }
  settle_nans32(out, in, lanes);
}

// A double as a float whose last digit is one where digits were lost. Rounding that to binary16 equals rounding the
// double.
inline float odd_float(double x) {
  const float near = float(x);
  const uint32_t bits = bits_of(near);
  const double lost = x - double(near);
  const uint32_t step = (lost > 0) == (x > 0) ? 1u : ~0u;
  const bool exact = lost == 0 || (bits & 1) || (bits & kInfinity32) == kInfinity32;
  return as_float(exact ? bits : bits + step);
}

// MODE.FP16_OVFL: an infinite result of finite sources becomes the largest number.
template <int N> inline void saturate16(uint32_t* out, const Fetched (&in)[N]) {
  for (int l = 0; l < kLanes; ++l) {
    bool infinite = false;
    for (int k = 0; k < N; ++k) infinite |= (in[k].x[l] & 0x7fff) == kInfinity16;
    if ((out[l] & 0x7fff) == kInfinity16 && !infinite) out[l] -= 1;
  }
}

// The same for binary16 in the low halves. Sums and products of binary16 may round to binary32 first: its 24 digits are
// enough to round again to 11 (2 x 11 + 2). A fused product and sum may not, so it goes through double and odd
// rounding.
template <class Op, int N> inline void compute16(uint32_t* out, const Fetched (&in)[N], int round, bool saturate) {
  alignas(64) float a[kLanes], b[kLanes], c[kLanes];
  halves_to_floats(a, in[0].x);
  halves_to_floats(b, in[1].x);
  if (N == 3) halves_to_floats(c, in[N - 1].x);
  if (round == kNearest) {
    alignas(64) float result[kLanes];
    EMU_LANES {
      if constexpr (N == 2) result[l] = Op::at(a[l], b[l]);
      else result[l] = odd_float(double(a[l]) * double(b[l]) + double(c[l]));
    }
    floats_to_halves(out, result);
  } else {
    for (int l = 0; l < kLanes; ++l) {
      double exact;
      if constexpr (N == 2) exact = Op::exact(a[l], b[l], round);
      else exact = Op::exact(a[l], b[l], c[l], round);
      out[l] = uint32_t(encode(kHalf, exact, round));
    }
  }
  settle_nans16(out, in);
  if (saturate) saturate16(out, in);
}

}  // namespace emu
