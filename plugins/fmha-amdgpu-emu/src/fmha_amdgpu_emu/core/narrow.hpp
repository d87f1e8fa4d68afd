// Floats of 8, 6 and 4 bits, and the byte that is a power of two, as tables of float.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace emu {

// How the top codes of a narrow format are used.
enum class Top : uint8_t {
  Ieee,    // the last exponent holds infinities and NaNs (OCP E5M2)
  OneNan,  // all ones is NaN, the rest of the last exponent are numbers (OCP E4M3)
  Fnuz,    // no infinities, no negative zero: its code is the NaN (gfx942's E4M3 and E5M2)
  Finite   // numbers only (E2M3, E3M2, E2M1)
};

constexpr float power_of_two(int exponent) {
  float out = 1;
  for (; exponent > 0; --exponent) out *= 2;
  for (; exponent < 0; ++exponent) out /= 2;
  return out;
}

constexpr float widened(unsigned code, int exponent_bits, int mantissa_bits, int bias, Top top) {
  const unsigned sign_bit = 1u << (exponent_bits + mantissa_bits);
  const unsigned magnitude = code & (sign_bit - 1);
  const int exponent = int(magnitude >> mantissa_bits), mantissa = int(magnitude & ((1u << mantissa_bits) - 1));
  const int last = (1 << exponent_bits) - 1;
  const float sign = code & sign_bit ? -1.0f : 1.0f;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (top == Top::Fnuz && code == sign_bit) return nan;
  if (top == Top::OneNan && magnitude == sign_bit - 1) return nan;
  if (top == Top::Ieee && exponent == last) return mantissa ? nan : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * float(mantissa) * power_of_two(1 - bias - mantissa_bits);
  return sign * float((1 << mantissa_bits) + mantissa) * power_of_two(exponent - bias - mantissa_bits);
}

template <int N>
constexpr std::array<float, N> widening_table(int exponent_bits, int mantissa_bits, int bias, Top top) {
  std::array<float, N> out{};
  for (int code = 0; code < N; ++code) out[code] = widened(unsigned(code), exponent_bits, mantissa_bits, bias, top);
  return out;
}

// OCP 8-bit floats (gfx950, gfx1201); CDNA3 ISA "FP8 and BF8" (gfx942: bias one higher); OCP MX 6 and 4 bits.
inline constexpr auto kFp8Ocp = widening_table<256>(4, 3, 7, Top::OneNan);
inline constexpr auto kBf8Ocp = widening_table<256>(5, 2, 15, Top::Ieee);
inline constexpr auto kFp8Fnuz = widening_table<256>(4, 3, 8, Top::Fnuz);
inline constexpr auto kBf8Fnuz = widening_table<256>(5, 2, 16, Top::Fnuz);
inline constexpr auto kFp6 = widening_table<64>(2, 3, 1, Top::Finite);
inline constexpr auto kBf6 = widening_table<64>(3, 2, 3, Top::Finite);
inline constexpr auto kFp4 = widening_table<16>(2, 1, 1, Top::Finite);

// E8M0: 2 to the code - 127; 255 is NaN.
constexpr float scale_of(unsigned code) {
  return code == 255 ? std::numeric_limits<float>::quiet_NaN() : power_of_two(int(code) - 127);
}

}  // namespace emu
