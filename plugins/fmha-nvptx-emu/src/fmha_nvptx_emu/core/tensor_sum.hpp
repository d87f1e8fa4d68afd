// The sums of tensor cores as hardware makes them: every product of a group and C are aligned to the largest exponent,
// truncated to `fraction` bits behind the point, and summed exactly; the result is truncated (binary32) or rounded to
// nearest even (binary16). PTX ISA leaves this open (9.7.14.5.14). Source: the paper of MMA-Sim (arXiv 2511.10909), which
// states it from measurements. A tile is 16 x 8, as of mma; wgmma is made of such tiles.
#pragma once

#include <algorithm>

#include "floats.hpp"

namespace ptx {

enum class Element { F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, U8, S8 };

constexpr unsigned elements_of(Element e) {  // of a register; those of 4 and 6 bits have a byte each
  return e == Element::TF32 ? 1 : e == Element::F16 || e == Element::BF16 ? 2 : 4;
}
constexpr int least_exponent(Element e) {  // of a normal number
  return e == Element::F16 || e == Element::E5M2 ? -14 : e == Element::E4M3 ? -6 : -126;
}

template <Element element> inline float element_of(uint32_t bits, unsigned h) {
  if constexpr (element == Element::TF32) return float_of(bits & 0xffffe000);
  else if constexpr (element == Element::F16) return float(narrow<f16>(uint16_t(bits >> 16 * h)));
  else if constexpr (element == Element::BF16) return float_of(bits >> 16 * h << 16);
  else if constexpr (element == Element::E5M2) return float(narrow<f16>(uint16_t((bits >> 8 * h & 0xff) << 8)));
  else {
    const uint32_t x = bits >> 8 * h & 0xff, sign = (x & 0x80) << 24;
    if ((x & 0x7f) == 0x7f) return float_of(kNan);
    if (x & 0x78) return float_of(sign | ((x & 0x7f) + (120u << 3)) << 20);  // the bias is 7 instead of 127
    const float tiny = float(x & 7) * 0x1p-9f;
    return sign ? -tiny : tiny;
  }
}

struct TensorSums {
  int fraction = 0;        // bits behind the point of an aligned term; 0: not known
  bool halves = false;     // two sums of half the depth, one after the other
  bool narrow = false;     // a binary32 result keeps 13 bits behind the point
};

// Of mma.sync, by compute capability.
inline TensorSums mma_sums(int major, int minor, Element element, unsigned k) {
  const bool ampere = major == 8, byte = elements_of(element) == 4;
  if (major == 7) return {24, false, false};
  const bool halves = k == 8 * elements_of(element);
  if (byte && ampere) return minor == 9 ? TensorSums{13, halves, true} : TensorSums{};
  if (byte && major == 9) return {};  // Hopper's mma.sync of 8-bit floats has not been measured
  return ampere ? TensorSums{24, halves, false} : TensorSums{25, false, false};
}
// Of wgmma on Hopper.
inline TensorSums wgmma_sums(Element element) {
  return elements_of(element) == 4 ? TensorSums{13, false, true} : TensorSums{25, false, false};
}

// Of tcgen05.mma, whatever the format.
inline TensorSums tcgen05_sums() { return {25, false, false}; }

struct Scaled {
  int32_t significand;  // in units of 2^-10 (of C: 2^-23)
  int32_t exponent;
};

// A number of a format whose least exponent is given. Zeros have the exponent -126, whatever their format.
inline Scaled scaled(float x, int least, int drop) {
  const uint32_t bits = bits_of_float(x), field = bits >> 23 & 0xff;
  int32_t significand = int32_t(bits & 0x7fffff) | (field ? 0x800000 : 0), exponent = field ? int32_t(field) - 127 : -126;
  if (!significand) return {0, -126};
  significand >>= drop;
  if (exponent < least) significand >>= std::min(31, least - exponent), exponent = least;
  return {bits >> 31 ? -significand : significand, exponent};
}

inline int64_t shifted(int64_t value, int by) {  // times 2^by, towards zero
  const int64_t size = value < 0 ? -value : value;
  const int64_t out = by >= 0 ? size << by : size >> std::min(63, -by);
  return value < 0 ? -out : out;
}

// sum * 2^(exponent - fraction) as binary32, truncated behind `keep` bits; a zero is +0.
inline float truncated(int64_t sum, int exponent, int fraction, int keep) {
  if (!sum) return 0.0f;
  const uint64_t size = uint64_t(sum < 0 ? -sum : sum);
  const int unit = exponent - fraction;
  const int e = std::max(63 - __builtin_clzll(size) + unit, -126);
  if (e > 127) return sum < 0 ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  const int by = unit - e + keep;
  const uint64_t kept = (by >= 0 ? size << by : size >> std::min(63, -by)) << (23 - keep);
  if (!kept) return 0.0f;
  return float_of((sum < 0 ? 0x80000000u : 0u) | uint32_t(kept + (uint64_t(e + 126) << 23)));
}

// D = A B + C of a tile: `a` is A by k, `b` the columns of B one after another, `k` elements each, and `sums` holds C by columns and
// receives D. Binary16 sums are kept as binary32. Formats and depth are arguments, because a compile for each of them takes seconds.
template <bool half_sums>
void truncating_tile(Element ea, Element eb, unsigned k, const float (*a)[16], const float* b, float (&sums)[8][16], TensorSums how);

}  // namespace ptx
