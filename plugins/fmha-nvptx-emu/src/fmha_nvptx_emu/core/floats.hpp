// Float formats and their rounding.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lanes.hpp"

namespace ptx {

struct bf16 {
  uint16_t bits;
};

inline uint32_t bits_of_float(float x) { uint32_t b; std::memcpy(&b, &x, 4); return b; }
inline float float_of(uint32_t b) { float x; std::memcpy(&x, &b, 4); return x; }
inline float wide(bf16 x) { return float_of(uint32_t(x.bits) << 16); }
inline float wide(f16 x) { return float(x); }

constexpr uint16_t kHalfNan = 0x7fff;  // the canonical NaN of f16 and bf16 results

inline bf16 to_bf16(float x) {
  const uint32_t b = bits_of_float(x);
  const uint32_t rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
  return {uint16_t((b & 0x7fffffff) > 0x7f800000 ? kHalfNan : rounded)};
}
inline f16 to_f16(float x) {
  const f16 h = f16(x);
  return h;
}

// Subnormal numbers to zeros of their sign: `.ftz`.
inline float flushed(float x) {
  const uint32_t b = bits_of_float(x);
  return (b & 0x7f800000) ? x : float_of(b & 0x80000000);
}
template <bool ftz> inline float flush(float x) { return ftz ? flushed(x) : x; }
inline float saturated(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }  // NaN to +0
constexpr uint32_t kNan = 0x7fffffff;
inline float canonical(float x) { return x != x ? float_of(kNan) : x; }

// 2^x in double, rounded once: correct but for ties beyond double's precision.
inline float exp2_rounded(float x) {
  const float clamped = x < -160.0f ? -160.0f : x > 130.0f ? 130.0f : x;
  const double n = std::nearbyint(double(clamped)), f = (double(clamped) - n) * 0.69314718055994530942;
  double p = 1.0 / 479001600.0;
  p = __builtin_fma(p, f, 1.0 / 39916800.0);
  p = __builtin_fma(p, f, 1.0 / 3628800.0);
  p = __builtin_fma(p, f, 1.0 / 362880.0);
  p = __builtin_fma(p, f, 1.0 / 40320.0);
  p = __builtin_fma(p, f, 1.0 / 5040.0);
  p = __builtin_fma(p, f, 1.0 / 720.0);
  p = __builtin_fma(p, f, 1.0 / 120.0);
  p = __builtin_fma(p, f, 1.0 / 24.0);
  p = __builtin_fma(p, f, 1.0 / 6.0);
  p = __builtin_fma(p, f, 0.5);
  p = __builtin_fma(p, f, 1.0);
  p = __builtin_fma(p, f, 1.0);
  const uint64_t exponent = uint64_t(int64_t(int32_t(n)) + 1023) << 52;
  double scale;
  std::memcpy(&scale, &exponent, 8);
  return x != x ? float_of(kNan) : float(p * scale);
}

}  // namespace ptx
