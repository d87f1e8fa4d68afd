// The product of one mma: D = A B + C with A 16 x k, B k x 8. Source of the fragments: PTX ISA 9.1, 9.7.14.5.8.
#pragma once

#include "tensor_sum.hpp"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace ptx {

struct Shape {
  unsigned d, a, b;  // registers of each fragment
};
constexpr Shape shape_of(Element element, unsigned k, bool half_sums) {
  return {half_sums ? 2u : 4u, 16 * k / 32 / elements_of(element), 8 * k / 32 / elements_of(element)};
}

// Register r of A: row g + 8(r%2), k E t + h + 4E(r/2); of B: column g, k E t + h + 4E r; of D: row g + 8(r/2), column
// 2t + r%2. g = lane / 4, t = lane % 4, E elements a register.
// `how`: the sums of tensor cores, or null for fma in ascending k.
template <Element element, unsigned k, bool half_sums, Element element_b = element>
void product_by_elements(uint32_t* const* d, const uint32_t* const* in, const TensorSums* how = nullptr) {
  constexpr Shape shape = shape_of(element, k, half_sums);
  constexpr unsigned elements = elements_of(element);
  float a[k][16], b[8][k], sums[8][16];
  const uint32_t* const* bs = in + shape.a;
  const uint32_t* const* cs = bs + shape.b;
  for (unsigned r = 0; r < shape.a; ++r)
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned h = 0; h < elements; ++h)
        a[elements * (l % 4) + h + 4 * elements * (r / 2)][l / 4 + 8 * (r % 2)] = element_of<element>(in[r][l], h);
  for (unsigned r = 0; r < shape.b; ++r)
    for (unsigned l = 0; l < 32; ++l)
      for (unsigned h = 0; h < elements; ++h) b[l / 4][elements * (l % 4) + h + 4 * elements * r] = element_of<element_b>(bs[r][l], h);
  for (unsigned r = 0; r < shape.d; ++r)
    for (unsigned l = 0; l < 32; ++l) {
      if constexpr (half_sums) {
        for (unsigned h = 0; h < 2; ++h) sums[2 * (l % 4) + h][l / 4 + 8 * r] = element_of<Element::F16>(cs[r][l], h);
      } else sums[2 * (l % 4) + r % 2][l / 4 + 8 * (r / 2)] = float_of(cs[r][l]);
    }
  if (how) truncating_tile<k, half_sums>(element, element_b, a, b, sums, *how);
  else for (unsigned n = 0; n < 8; ++n)
    for (unsigned at = 0; at < k; ++at)
      for (unsigned row = 0; row < 16; ++row) sums[n][row] = __builtin_fmaf(a[at][row], b[n][at], sums[n][row]);
  for (unsigned r = 0; r < shape.d; ++r)
    for (unsigned l = 0; l < 32; ++l) {
      if constexpr (half_sums) {
        uint32_t bits = 0;
        for (unsigned h = 0; h < 2; ++h) bits |= widen<f16>(f16(sums[2 * (l % 4) + h][l / 4 + 8 * r])) << 16 * h;
        d[r][l] = bits;
      } else d[r][l] = bits_of_float(sums[2 * (l % 4) + r % 2][l / 4 + 8 * (r / 2)]);
    }
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
// The same with whole registers: a fragment of A is a row-major block of 8 x 8 halves, so one permutation gives two columns
// of 16 rows. Columns are vectors, elements of B are broadcast.
template <Element element> inline __m512 sixteen(__m256i halves) {
  if constexpr (element == Element::F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
template <Element element> inline void product_by_columns(uint32_t* const* d, const uint32_t* const* in) {
  static const auto pairs = [] {  // pair p: columns 2p and 2p + 1 of [upper rows: first block][lower rows: second block]
    struct Table {
      alignas(64) uint16_t at[4][32];
    } out{};
    for (unsigned p = 0; p < 4; ++p)
      for (unsigned h = 0; h < 2; ++h)
        for (unsigned r = 0; r < 16; ++r) out.at[p][16 * h + r] = uint16_t(r / 8 * 32 + (r % 4) * 8 + 2 * p + h);
    return out;
  }();
  alignas(64) float b[8][16];
  for (unsigned r = 0; r < 2; ++r)
    for (unsigned half = 0; half < 4; ++half) {
      const __m512 v = sixteen<element>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[4 + r] + 8 * half)));
      _mm256_store_ps(&b[2 * half][8 * r], _mm512_castps512_ps256(v));
      _mm256_store_ps(&b[2 * half + 1][8 * r], _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1)));
    }
  const __m512i even = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i odd = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  __m512 sums[8];
  for (unsigned r = 0; r < 2; ++r) {  // columns 2t + r
    const __m512i u0 = _mm512_loadu_si512(in[6 + r]), u1 = _mm512_loadu_si512(in[6 + r] + 16);
    const __m512i v0 = _mm512_loadu_si512(in[8 + r]), v1 = _mm512_loadu_si512(in[8 + r] + 16);
    const __m512i ue = _mm512_permutex2var_epi32(u0, even, u1), uo = _mm512_permutex2var_epi32(u0, odd, u1);
    const __m512i ve = _mm512_permutex2var_epi32(v0, even, v1), vo = _mm512_permutex2var_epi32(v0, odd, v1);
    sums[r] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(ue, ve, 0x44));
    sums[2 + r] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(ue, ve, 0xee));
    sums[4 + r] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(uo, vo, 0x44));
    sums[6 + r] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(uo, vo, 0xee));
  }
  for (unsigned side = 0; side < 2; ++side) {
    // rows 0 to 3 and 4 to 7 of a block lie in its two vectors
    const __m512i x0 = _mm512_loadu_si512(in[2 * side]), x1 = _mm512_loadu_si512(in[2 * side] + 16);
    const __m512i y0 = _mm512_loadu_si512(in[2 * side + 1]), y1 = _mm512_loadu_si512(in[2 * side + 1] + 16);
    for (unsigned p = 0; p < 4; ++p) {
      const __m512i index = _mm512_load_si512(pairs.at[p]);
      const __m512i first = _mm512_permutex2var_epi16(x0, index, y0), second = _mm512_permutex2var_epi16(x1, index, y1);
      // `first` has rows 0-3 (twice) and 8-11, `second` rows 4-7 and 12-15: join them by quarters of 4 halves
      const __mmask32 upper = 0xf0f0f0f0;
      const __m512i both = _mm512_mask_blend_epi16(upper, first, second);
      const __m512 c0 = sixteen<element>(_mm512_castsi512_si256(both)), c1 = sixteen<element>(_mm512_extracti64x4_epi64(both, 1));
      const unsigned k = 8 * side + 2 * p;
      for (unsigned n = 0; n < 8; ++n) sums[n] = _mm512_fmadd_ps(c0, _mm512_set1_ps(b[n][k]), sums[n]);
      for (unsigned n = 0; n < 8; ++n) sums[n] = _mm512_fmadd_ps(c1, _mm512_set1_ps(b[n][k + 1]), sums[n]);
    }
  }
  alignas(64) float out[8][16];
  for (unsigned n = 0; n < 8; ++n) _mm512_store_ps(out[n], sums[n]);
  const __m512i rows0 = _mm512_setr_epi32(0, 32, 64, 96, 1, 33, 65, 97, 2, 34, 66, 98, 3, 35, 67, 99);
  const auto gather = [&](unsigned r, unsigned row) {
    return _mm512_i32gather_ps(_mm512_add_epi32(rows0, _mm512_set1_epi32(int(16 * (r % 2) + row))), &out[0][0], 4);
  };
  for (unsigned r = 0; r < 4; ++r) {
    _mm512_storeu_ps(d[r], gather(r, 8 * (r / 2)));
    _mm512_storeu_ps(d[r] + 16, gather(r, 8 * (r / 2) + 4));
  }
}
#endif

template <Element element, unsigned k, bool half_sums, Element element_b = element>
inline void product(uint32_t* const* d, const uint32_t* const* in) {
#if defined(__AVX512F__) && defined(__AVX512BW__)
  if constexpr (k == 16 && !half_sums && elements_of(element) == 2) return product_by_columns<element>(d, in);
#endif
  product_by_elements<element, k, half_sums, element_b>(d, in);
}

}  // namespace ptx
