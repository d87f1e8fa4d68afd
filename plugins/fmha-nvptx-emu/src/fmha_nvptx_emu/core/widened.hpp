// Elements of operands as vectors of binary32, on processors with AVX-512: element_of (tensor_sum.hpp), 16 at a time.
#pragma once

#include "tensor_sum.hpp"
#if defined(__AVX512F__) && defined(__AVX512BW__)
#define PTX_AVX512
#include <immintrin.h>

namespace ptx {

// Element h of each of 16 registers as binary32: element_of in vectors.
template <Element element> inline __m512 widened(__m512i bits, unsigned h) {
  const __m512i here = _mm512_srlv_epi32(bits, _mm512_set1_epi32(int(32 / elements_of(element) * h)));
  if constexpr (element == Element::TF32) return _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(int(0xffffe000))));
  else if constexpr (element == Element::F16) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(here));
  else if constexpr (element == Element::BF16) return _mm512_castsi512_ps(_mm512_slli_epi32(here, 16));
  else if constexpr (element == Element::E5M2) return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_slli_epi32(here, 8)));
  else {
    const __m512i size = _mm512_and_si512(here, _mm512_set1_epi32(0x7f));
    const __m512i normal = _mm512_slli_epi32(_mm512_add_epi32(size, _mm512_set1_epi32(120 << 3)), 20);
    const __m512i tiny = _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(size), _mm512_set1_ps(0x1p-9f)));
    const __m512i sign = _mm512_slli_epi32(_mm512_and_si512(here, _mm512_set1_epi32(0x80)), 24);
    const __m512i value = _mm512_or_si512(sign, _mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(8)), normal, tiny));
    const __mmask16 none = _mm512_cmpeq_epi32_mask(size, _mm512_set1_epi32(0x7f));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(none, value, _mm512_set1_epi32(int(kNan))));
  }
}

// 16 elements of two bytes.
template <Element element> inline __m512 widened_halves(__m256i bits) {
  static_assert(elements_of(element) == 2);
  if constexpr (element == Element::F16) return _mm512_cvtph_ps(bits);
  else return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Up to 16 elements that lie one behind the other: 32 bytes, of 8-bit elements 16.
template <Element element> inline __m512 widened_row(const uint8_t* at) {
  constexpr unsigned elements = elements_of(element);
  if constexpr (elements == 1) return widened<element>(_mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))), 0);
  else if constexpr (elements == 2) return widened_halves<element>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  else return widened<element>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))), 0);
}

// Four rows of 16 elements: out[j] has elements 4q + j of all four rows in its 16 bytes q.
inline void in_fours(const __m512 (&rows)[4], __m512 (&out)[4]) {
  const __m512 a = _mm512_unpacklo_ps(rows[0], rows[1]), b = _mm512_unpacklo_ps(rows[2], rows[3]);
  const __m512 c = _mm512_unpackhi_ps(rows[0], rows[1]), d = _mm512_unpackhi_ps(rows[2], rows[3]);
  out[0] = _mm512_shuffle_ps(a, b, 0x44), out[1] = _mm512_shuffle_ps(a, b, 0xee);
  out[2] = _mm512_shuffle_ps(c, d, 0x44), out[3] = _mm512_shuffle_ps(c, d, 0xee);
}

// 16 rows of 16 elements, `step` apart: to[k] has element k of all of them.
inline void turn_sixteen(const float* from, size_t step, float* to, size_t to_step) {
  __m512 fours[4][4];  // [group of four rows][j]: its 16 bytes q are elements 4q + j
  for (unsigned g = 0; g < 4; ++g) {
    __m512 rows[4];
    for (unsigned r = 0; r < 4; ++r) rows[r] = _mm512_loadu_ps(from + (4 * g + r) * step);
    in_fours(rows, fours[g]);
  }
  for (unsigned j = 0; j < 4; ++j) {
    const __m512 a = _mm512_shuffle_f32x4(fours[0][j], fours[1][j], 0x44), b = _mm512_shuffle_f32x4(fours[2][j], fours[3][j], 0x44);
    const __m512 c = _mm512_shuffle_f32x4(fours[0][j], fours[1][j], 0xee), d = _mm512_shuffle_f32x4(fours[2][j], fours[3][j], 0xee);
    _mm512_storeu_ps(to + j * to_step, _mm512_shuffle_f32x4(a, b, 0x88));
    _mm512_storeu_ps(to + (4 + j) * to_step, _mm512_shuffle_f32x4(a, b, 0xdd));
    _mm512_storeu_ps(to + (8 + j) * to_step, _mm512_shuffle_f32x4(c, d, 0x88));
    _mm512_storeu_ps(to + (12 + j) * to_step, _mm512_shuffle_f32x4(c, d, 0xdd));
  }
}

}  // namespace ptx
#endif
