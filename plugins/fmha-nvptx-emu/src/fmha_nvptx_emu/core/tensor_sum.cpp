// The sums of tensor cores, as tensor_sum.hpp states them.
#include "tensor_sum.hpp"

namespace ptx {

namespace {

constexpr unsigned kDepth = 32;  // the most k of a tile

// The same as binary16, to nearest even: the sum has more bits than binary32, which would round it twice.
float to_half(int64_t sum, int exponent, int fraction) {
  if (!sum) return 0.0f;
  const uint64_t size = uint64_t(sum < 0 ? -sum : sum);
  const int unit = exponent - fraction;
  const int e = std::max(63 - __builtin_clzll(size) + unit, -14), by = unit - e + 10;
  uint64_t kept = by >= 0 ? size << by : by < -62 ? 0 : size >> -by;
  if (by < 0 && by >= -62) {
    const uint64_t rest = size & ((uint64_t(1) << -by) - 1), half = uint64_t(1) << (-by - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  if (!kept) return 0.0f;
  const float whole = e > 15 ? 65536.0f : std::ldexp(float(kept), e - 10);  // rounding may reach the next power of two
  const float out = whole < 65536.0f ? whole : std::numeric_limits<float>::infinity();
  return sum < 0 ? -out : out;
}

// One column of a tile for k in [from, to): sums holds C and receives D.
template <bool half_sums>
void truncating_column(const Scaled (*a)[16], const Scaled* b, float (&sums)[16], unsigned from, unsigned to, TensorSums how) {
  constexpr int least = half_sums ? -14 : -126;
  int32_t top[16], exponents[kDepth][16];
  Scaled c[16];
  int64_t total[16];
  for (unsigned row = 0; row < 16; ++row) c[row] = scaled(sums[row], least, 0), top[row] = c[row].exponent;
  for (unsigned at = from; at < to; ++at)
    for (unsigned row = 0; row < 16; ++row) {
      exponents[at][row] = a[at][row].exponent + b[at].exponent;
      top[row] = std::max(top[row], exponents[at][row]);
    }
  for (unsigned row = 0; row < 16; ++row) total[row] = shifted(c[row].significand, how.fraction - 23 + c[row].exponent - top[row]);
  for (unsigned at = from; at < to; ++at)
    for (unsigned row = 0; row < 16; ++row) {
      const int64_t product = int64_t(a[at][row].significand) * b[at].significand;
      total[row] += shifted(product, how.fraction - 20 + exponents[at][row] - top[row]);
    }
  for (unsigned row = 0; row < 16; ++row)
    sums[row] = half_sums ? to_half(total[row], top[row], how.fraction) : truncated(total[row], top[row], how.fraction, how.narrow ? 13 : 23);
}

}  // namespace

template <bool half_sums>
void truncating_tile(Element ea, Element eb, unsigned k, const float (*a)[16], const float* b, float (&sums)[8][16], TensorSums how) {
  const int least_a = least_exponent(ea), least_b = least_exponent(eb);
  Scaled as[kDepth][16], bs[kDepth];
  bool finite_a = true;
  for (unsigned at = 0; at < k; ++at)
    for (unsigned row = 0; row < 16; ++row) {
      as[at][row] = scaled(a[at][row], least_a, 13);
      finite_a &= std::isfinite(a[at][row]);
    }
  for (unsigned n = 0; n < 8; ++n) {
    bool finite_b = true;
    for (unsigned at = 0; at < k; ++at) {
      bs[at] = scaled(b[n * k + at], least_b, 13);
      finite_b &= std::isfinite(b[n * k + at]);
    }
    const unsigned step = how.halves ? k / 2 : k;
    for (unsigned from = 0; from < k; from += step) {
      float special[16] = {};  // not finite where the result is none either
      bool finite = finite_a && finite_b;
      for (unsigned row = 0; row < 16; ++row) finite &= std::isfinite(sums[n][row]);
      if (!finite)
        for (unsigned row = 0; row < 16; ++row) {
          double sum = sums[n][row];
          for (unsigned at = from; at < from + step; ++at) sum += double(a[at][row]) * double(b[n * k + at]);
          if (!std::isfinite(sum)) special[row] = sum != sum ? float_of(kNan) : float(sum);
        }
      truncating_column<half_sums>(as, bs, sums[n], from, from + step, how);
      if (!finite)
        for (unsigned row = 0; row < 16; ++row)
          if (!std::isfinite(special[row])) sums[n][row] = special[row];
    }
  }
}
template void truncating_tile<false>(Element, Element, unsigned, const float (*)[16], const float*, float (&)[8][16], TensorSums);
template void truncating_tile<true>(Element, Element, unsigned, const float (*)[16], const float*, float (&)[8][16], TensorSums);

}  // namespace ptx
