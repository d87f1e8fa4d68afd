// Vector operations on 16 floats: AVX-512 F, BW, DQ, VL (and BF16 where PAIRS is set).

enum { NL = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef uint32_t vu __attribute__((vector_size(64)));

INLINE vf exp2_fraction(vf f);
INLINE vf vset(float x) { return _mm512_set1_ps(x); }
INLINE vf vload(const float* p) { return _mm512_loadu_ps(p); }
INLINE vf vload(const f16* p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
INLINE vf vload(const bf16* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16));
}
INLINE __mmask16 first_lanes(i64 n) { return (__mmask16)_bzhi_u32(0xffff, (unsigned)n); }
INLINE vf vload_n(const float* p, i64 n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
INLINE vf vload_n(const f16* p, i64 n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p)); }
INLINE vf vload_n(const bf16* p, i64 n) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), p)), 16));
}
INLINE void vstore(float* p, vf x) { _mm512_storeu_ps(p, x); }
INLINE void vstore_n(float* p, vf x, i64 n) { _mm512_mask_storeu_ps(p, first_lanes(n), x); }
INLINE __m256i half_bits(vf x, const f16*) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
#if PAIRS
// Subnormal results become 0: the instruction does not keep them.
INLINE __m256i half_bits(vf x, const bf16*) { return (__m256i)_mm512_cvtneps_pbh(x); }
#else
INLINE __m256i half_bits(vf x, const bf16*) {
  vi u = _mm512_castps_si512(x);
  vi odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  vi r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}
#endif
template <class T>
INLINE void vstore(T* p, vf x) {
  _mm256_storeu_si256((__m256i*)p, half_bits(x, p));
}
template <class T>
INLINE void vstore_n(T* p, vf x, i64 n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), half_bits(x, p));
}
INLINE vf vfma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
// NaN in b is kept, NaN in a is not.
INLINE vf vmax(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vmin(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vabs(vf a) { return _mm512_abs_ps(a); }
INLINE vf vxor(vf a, uint32_t bits) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)bits)));
}
INLINE vf viota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
INLINE vf vpick(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE vm vabove(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
// Lanes lo <= lane < hi; both in [0, NL].
INLINE vm vrange(i64 lo, i64 hi) { return (vm)(first_lanes(hi) & ~first_lanes(lo)); }
INLINE float vsum(vf x) { return _mm512_reduce_add_ps(x); }
INLINE float vtop(vf x) { return _mm512_reduce_max_ps(x); }
// On Zen 4 the divider works beside the multipliers: an estimate of the reciprocal with one correction took 2 % more of a launch.
INLINE vf vquotient(vf p, vf q) { return _mm512_div_ps(p, q); }
// While it lives, results too small for normal numbers are 0. Intel's processors leave the pipeline for each vector in which scalef
// makes one, and for each product with one: far keys under ALiBi made a launch take four times as long.
// Sums of products below 2^-126 are 0 too.
#define FLUSHES
struct Flush {
  const unsigned old;
  Flush() : old(_mm_getcsr()) { _mm_setcsr(old | _MM_FLUSH_ZERO_ON); }
  ~Flush() { _mm_setcsr(old); }
};
// x - floor(x) is 0 for infinities, and scalef takes the floor of its exponent itself.
INLINE vf vexp2(vf x) {
  return _mm512_scalef_ps(exp2_fraction(_mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)), x);
}
INLINE void vmul_wide(vu a, uint32_t m, vu& hi, vu& lo) {
  vi b = _mm512_set1_epi32((int)m), x = (vi)a;
  vi even = _mm512_mul_epu32(x, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), b);
  lo = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
  hi = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
}
INLINE vu vlanes() { return (vu)_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
INLINE vm vreaches(vu a, uint32_t least) { return _mm512_cmp_epu32_mask((vi)a, _mm512_set1_epi32((int)least), 5); }

#if PAIRS
// Lanes hold pairs of bf16; products are exact, sums are fp32.
INLINE vf vpair(uint32_t x) { return _mm512_castsi512_ps(_mm512_set1_epi32((int)x)); }
INLINE vf vdot(vf acc, vf a, vf b) {
  return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
// Up to 2 * NL elements as NL pairs, zeros behind them.
INLINE vf vload_pairs(const bf16* p, i64 n) {
  __mmask32 m = n >= 32 ? 0xffffffffu : _bzhi_u32(0xffffffffu, (unsigned)n);
  return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(m, p));
}
// Rounds two vectors to bf16 and pairs them lane by lane: a in the low halves.
INLINE vf vjoin(vf a, vf b) {
  const vi weave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                    4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(weave, (vi)_mm512_cvtne2ps_pbh(b, a)));
}
// Rows a and b of V as they lie in memory, 32 columns, as pairs: the first 16 columns, and the last.
INLINE vf vweave(vf a, vf b, int first) {
  const vi step = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4,
                                   35, 3, 34, 2, 33, 1, 32, 0);
  const vi at = _mm512_add_epi16(step, _mm512_set1_epi16((short)first));
  return _mm512_castsi512_ps(_mm512_permutex2var_epi16(_mm512_castps_si512(a), at, _mm512_castps_si512(b)));
}
INLINE vf vweave_low(vf a, vf b) { return vweave(a, b, 0); }
INLINE vf vweave_high(vf a, vf b) { return vweave(a, b, 16); }
// Rows a and b of V as pairs, 16 columns.
INLINE vf vzip(vf a, vf b) {
  return _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(a), 16), _mm512_castps_si512(b)));
}
#endif
