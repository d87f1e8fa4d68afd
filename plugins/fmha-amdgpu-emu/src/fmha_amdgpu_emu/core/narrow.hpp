// Rows of formats of at most eight bits.
#pragma once

#include <array>

#include "floats.hpp"

namespace emu {

// The numbers of all codes of a format, as binary32.
inline const float* numbers_of(const Format& format) {
  static const auto table = [](const Format& f) {
    std::array<float, 256> numbers{};
    for (uint32_t code = 0; code < 256; ++code) {
      const double x = decode(f, code & ((1u << f.width()) - 1));
      const uint32_t sign = f.specials != Specials::Fnuz && code & f.sign() ? 0x80000000 : 0;
      numbers[code] = std::isnan(x) ? as_float(0x7fc00000 | sign) : float(x);
    }
    return numbers;
  };
  static const std::array<float, 256> fp8 = table(kFp8), bf8 = table(kBf8), fp8_fnuz = table(kFp8Fnuz),
                                      bf8_fnuz = table(kBf8Fnuz), fp6 = table(kFp6), bf6 = table(kBf6), fp4 = table(kFp4);
  if (format.exponent == 4) return (format.specials == Specials::Fnuz ? fp8_fnuz : fp8).data();
  if (format.exponent == 5) return (format.specials == Specials::Fnuz ? bf8_fnuz : bf8).data();
  if (format.exponent == 3) return bf6.data();
  return (format.mantissa == 3 ? fp6 : fp4).data();
}

// Rounds 64 numbers to nearest even. The mantissa is cut with the usual carry. A number below the smallest normal one
// is added to a power of two whose last place is the format's.
inline void narrow_row(const Format& f, uint32_t* out, const uint32_t* x, bool saturate) {
  const int cut = 23 - f.mantissa;
  const uint32_t half = (1u << (cut - 1)) - 1, rebias = uint32_t(127 - f.bias) << f.mantissa;
  const uint32_t normal = uint32_t(128 - f.bias) << 23, anchor = uint32_t(127 + cut + 1 - f.bias) << 23;
  const uint32_t largest = uint32_t(f.largest()), sign = uint32_t(f.sign());
  const uint32_t beyond = uint32_t(overflowed(f, false, kNearest, saturate));
  const uint32_t infinity = f.specials == Specials::Ieee ? uint32_t(f.infinity()) : beyond;
  const uint32_t nan = f.specials == Specials::None ? largest : uint32_t(f.nan()) & (sign - 1);
  const bool fnuz = f.specials == Specials::Fnuz;
  const int to_sign = 31 - (f.exponent + f.mantissa);
  EMU_LANES {
    const uint32_t size = x[l] & 0x7fffffff;
    const uint32_t large = ((size + half + (size >> cut & 1)) >> cut) - rebias;
    const uint32_t small = bits_of(as_float(choose(size < normal, size, 0)) + as_float(anchor)) - anchor;
    const uint32_t rounded = choose(size < normal, small, large), finite = choose(rounded > largest, beyond, rounded);
    const uint32_t special = choose(size == kInfinity32, infinity, nan);
    const uint32_t code = choose(size >= kInfinity32, special, finite);
    const bool one_nan = fnuz & ((size > kInfinity32) | (code == sign)), no_sign = fnuz & (code == 0);
    out[l] = choose(one_nan, sign, choose(no_sign, 0, code | (x[l] >> to_sign & sign)));
  }
}

}  // namespace emu
