// 2^x of 16 lanes at once, on processors with AVX-512.
#pragma once

#include "widened.hpp"

#ifdef PTX_AVX512
namespace ptx {

// exp2_rounded (floats.hpp) with the same bits for each number: a power of 2, times one of 2^(1/16), times that of what is left of x.
alignas(64) inline constexpr double kPowers[16] = {  // of 2^(1/16)
    0x1p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0, 0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0,
    0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0, 0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f09p+0,
    0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0};
inline __m256 exp2_of_eight(__m512d x) {
  const auto all = [](double value) { return _mm512_set1_pd(value); };
  constexpr double l = 0.69314718055994530942;
  const __m512d moved = _mm512_add_pd(x, all(0x1.8p48)), n = _mm512_sub_pd(moved, all(0x1.8p48)), f = _mm512_sub_pd(x, n);  // n: in 16ths
  const __m512d power = _mm512_permutex2var_pd(_mm512_load_pd(kPowers), _mm512_castpd_si512(moved), _mm512_load_pd(kPowers + 8));
  __m512d p = all(l * l * l * l * l * l * l / 5040);
  p = _mm512_fmadd_pd(p, f, all(l * l * l * l * l * l / 720));
  p = _mm512_fmadd_pd(p, f, all(l * l * l * l * l / 120));
  p = _mm512_fmadd_pd(p, f, all(l * l * l * l / 24));
  p = _mm512_fmadd_pd(p, f, all(l * l * l / 6));
  p = _mm512_fmadd_pd(p, f, all(l * l / 2));
  p = _mm512_fmadd_pd(p, f, all(l));
  return _mm512_cvtpd_ps(_mm512_scalef_pd(_mm512_fmadd_pd(_mm512_mul_pd(p, f), power, power), n));
}
inline __m512 exp2_rounded(__m512 x) {
  const __m512 near = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(-160.0f)), _mm512_set1_ps(130.0f));
  const __m256 low = exp2_of_eight(_mm512_cvtps_pd(_mm512_castps512_ps256(near)));
  const __m256 high = exp2_of_eight(_mm512_cvtps_pd(_mm512_extractf32x8_ps(near, 1)));
  const __m512 out = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  return _mm512_mask_mov_ps(out, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castsi512_ps(_mm512_set1_epi32(int(kNan))));
}

}  // namespace ptx
#endif
