// Floating-point formats in software: the number that a code of each format means, and the rounding of a number to it.
// Exact. Slow paths and small formats use this file; the rows of floats.hpp use the host's instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace emu {

inline float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
inline double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x); }

// MODE.FP_ROUND (ISA documents, "MODE register").
enum Rounding : int { kNearest = 0, kUp = 1, kDown = 2, kZero = 3 };

// What the codes with the largest exponent mean.
enum class Specials : uint8_t {
  Ieee,     // infinities and NaNs
  NanOnly,  // OCP E4M3: all ones is NaN, nothing is infinite
  Fnuz,     // the code of -0 is the one NaN; no infinity, no negative zero
  None      // fp4, fp6: every code is a number
};

struct Format {
  int exponent, mantissa, bias;  // bits, bits, what is subtracted from the exponent field
  Specials specials;
  constexpr int width() const { return 1 + exponent + mantissa; }
  constexpr uint64_t sign() const { return uint64_t(1) << (exponent + mantissa); }
  constexpr uint64_t infinity() const { return ((uint64_t(1) << exponent) - 1) << mantissa; }
  constexpr uint64_t largest() const {
    return specials == Specials::Ieee ? infinity() - 1 : sign() - (specials == Specials::NanOnly ? 2 : 1);
  }
  // The NaN of an invalid operation. AMD's is negative: V_LOG_F32(-1.0) is 0xffc00000, 0/0 in F16 0xfe00 (CDNA4 12.11).
  constexpr uint64_t nan() const {
    if (specials == Specials::Ieee) return sign() | infinity() | uint64_t(1) << (mantissa - 1);
    return specials == Specials::Fnuz ? sign() : sign() - 1;
  }
};

constexpr Format kSingle{8, 23, 127, Specials::Ieee}, kHalf{5, 10, 15, Specials::Ieee},
    kBrain{8, 7, 127, Specials::Ieee};
// The FNUZ formats have no infinity and a bias that is larger by one; the others are OCP's (CDNA3 7.3, CDNA4 and RDNA4
// "FP8 and BF8").
constexpr Format kFp8Fnuz{4, 3, 8, Specials::Fnuz}, kBf8Fnuz{5, 2, 16, Specials::Fnuz};
constexpr Format kFp8{4, 3, 7, Specials::NanOnly}, kBf8{5, 2, 15, Specials::Ieee};
constexpr Format kFp6{2, 3, 1, Specials::None}, kBf6{3, 2, 3, Specials::None}, kFp4{2, 1, 1, Specials::None};

// The number of a code; NaN keeps no payload.
inline double decode(const Format& f, uint64_t code) {
  const bool negative = code & f.sign();
  const uint64_t size = code & (f.sign() - 1);
  const double nan = as_double(0x7ff8000000000000);
  if (f.specials == Specials::Fnuz && negative && size == 0) return nan;
  if (f.specials == Specials::NanOnly && size == f.sign() - 1) return negative ? -nan : nan;
  double value;
  if (f.specials == Specials::Ieee && size >= f.infinity()) {
    value = size == f.infinity() ? HUGE_VAL : nan;
  } else {
    const int field = int(size >> f.mantissa);
    const uint64_t hidden = field ? uint64_t(1) << f.mantissa : 0;
    const uint64_t digits = (size & ((uint64_t(1) << f.mantissa) - 1)) | hidden;
    value = std::ldexp(double(digits), (field ? field : 1) - f.bias - f.mantissa);
  }
  return negative ? -value : value;
}

// The code of a magnitude that rounded to infinity, or beyond the largest number.
inline uint64_t overflowed(const Format& f, bool negative, int round, bool saturate) {
  const bool stays = saturate || f.specials == Specials::None || round == kZero || (round == kUp && negative) ||
                     (round == kDown && !negative);
  if (stays) return f.largest() | (negative ? f.sign() : 0);
  if (f.specials == Specials::Ieee) return f.infinity() | (negative ? f.sign() : 0);
  return f.specials == Specials::Fnuz ? f.sign() : (f.sign() - 1) | (negative ? f.sign() : 0);
}

// Splits |x| into the digits that the format keeps and the part of its last place that is lost.
struct Digits {
  uint64_t whole;  // hidden bit included
  double rest;     // [0, 1)
  int exponent;    // of the first digit, at least the smallest normal one
};

inline Digits digits_of(const Format& f, double size) {
  int e;
  std::frexp(size, &e);
  const int least = 1 - f.bias, exponent = e - 1 < least ? least : e - 1;
  const double scaled = std::ldexp(size, f.mantissa - exponent), whole = std::floor(scaled);
  return {uint64_t(whole), scaled - whole, exponent};
}

inline uint64_t assemble(const Format& f, const Digits& d, bool up, bool negative, int round, bool saturate) {
  const uint64_t size = d.whole + up + (uint64_t(d.exponent - (1 - f.bias)) << f.mantissa);
  if (size > f.largest()) return overflowed(f, negative, round, saturate);
  if (f.specials == Specials::Fnuz && size == 0) return 0;
  return size | (negative ? f.sign() : 0);
}

// Handles special values: returns true and sets `code`.
inline bool special_code(const Format& f, double x, bool saturate, uint64_t& code) {
  const uint64_t sign = std::signbit(x) ? f.sign() : 0;
  if (std::isnan(x)) {
    if (f.specials == Specials::Ieee) code = sign | (f.nan() & ~f.sign());
    else if (f.specials == Specials::Fnuz) code = f.nan();
    else if (f.specials == Specials::NanOnly) code = f.nan() | sign;
    else code = f.largest() | sign;
    return true;
  }
  if (std::isinf(x)) {
    if (f.specials == Specials::Ieee) code = f.infinity() | sign;
    else code = overflowed(f, sign, kNearest, saturate);
    return true;
  }
  if (x == 0) {
    code = f.specials == Specials::Fnuz ? 0 : sign;
    return true;
  }
  return false;
}

// Round a number to a format. `saturate`: a finite number beyond the largest one becomes the largest one.
inline uint64_t encode(const Format& f, double x, int round = kNearest, bool saturate = false) {
  uint64_t code;
  if (special_code(f, x, saturate, code)) return code;
  const bool negative = std::signbit(x);
  const Digits d = digits_of(f, std::fabs(x));
  bool up = false;
  if (round == kNearest) up = d.rest > 0.5 || (d.rest == 0.5 && (d.whole & 1));
  else if (round != kZero) up = d.rest > 0 && (round == kDown) == negative;
  return assemble(f, d, up, negative, round, saturate);
}

// Stochastic rounding: rounds up where the lost part of the last place plus the seed, read as a fraction, reaches one.
// For a normal fp8 result this adds seed[31:12] below the kept digits and truncates, as the documents' V_CVT_SR_FP8_F32
// does.
inline uint64_t encode_stochastic(const Format& f, double x, uint32_t seed, bool saturate = false) {
  uint64_t code;
  if (special_code(f, x, saturate, code)) return code;
  const Digits d = digits_of(f, std::fabs(x));
  const bool up = d.rest + double(seed) / 4294967296.0 >= 1.0;
  return assemble(f, d, up, std::signbit(x), kNearest, saturate);
}

// a + b with the last digit set to one where digits were lost ("rounding to odd"). Rounding that again to a format with
// at least two digits less equals rounding the exact sum, in every mode. An exact cancellation gives -0 when rounding
// down.
inline double odd_sum(double a, double b, int round = kNearest) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  if (sum == 0) return round == kDown && (a != 0 || b != 0 || std::signbit(a) != std::signbit(b)) ? -0.0 : sum;
  const double part = sum - a, lost = (a - (sum - part)) + (b - part);
  if (lost == 0 || bits_of(sum) & 1) return sum;
  const bool grows = (lost > 0) == (sum > 0);
  return as_double(bits_of(sum) + (grows ? 1 : -1));
}

inline float round_to_single(double x, int round) {
  return round == kNearest ? float(x) : as_float(uint32_t(encode(kSingle, x, round)));
}

}  // namespace emu
