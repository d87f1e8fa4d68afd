// Vector operations on 8 floats: AVX2, FMA, F16C.

enum { NL = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
typedef uint32_t vu __attribute__((vector_size(32)));

INLINE vi vlanes_i() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
INLINE vi first_lanes(i64 n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), vlanes_i()); }
INLINE vf exp2_fraction(vf f);
INLINE vf vset(float x) { return _mm256_set1_ps(x); }
INLINE vf vload(const float* p) { return _mm256_loadu_ps(p); }
INLINE vf vload(const f16* p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
INLINE vf vload(const bf16* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16));
}
INLINE vf vload_n(const float* p, i64 n) { return _mm256_maskload_ps(p, first_lanes(n)); }
// Words of two elements, and the last element of all lanes at its own: no array, so no call and nothing on the stack.
INLINE __m128i load_halves(const void* p, i64 n) {
  const __m128i lanes = _mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7), words = _mm_setr_epi32(0, 1, 2, 3);
  const __m128i pairs = _mm_maskload_epi32((const int*)p, _mm_cmpgt_epi32(_mm_set1_epi32((int)(n >> 1)), words));
  const __m128i last = _mm_set1_epi16(n > 0 ? ((const short*)p)[n - 1] : (short)0);
  return _mm_blendv_epi8(pairs, last, _mm_cmpeq_epi16(lanes, _mm_set1_epi16((short)(n - 1))));
}
INLINE vf vload_n(const f16* p, i64 n) { return _mm256_cvtph_ps(load_halves(p, n)); }
INLINE vf vload_n(const bf16* p, i64 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_halves(p, n)), 16));
}
INLINE void vstore(float* p, vf x) { _mm256_storeu_ps(p, x); }
INLINE void vstore_n(float* p, vf x, i64 n) { _mm256_maskstore_ps(p, first_lanes(n), x); }
INLINE __m128i half_bits(vf x, const f16*) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
INLINE __m128i half_bits(vf x, const bf16*) {
  vi u = _mm256_castps_si256(x);
  vi odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  vi r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  vi quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  r = _mm256_blendv_epi8(r, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  r = _mm256_srli_epi32(r, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}
template <class T>
INLINE void vstore(T* p, vf x) {
  _mm_storeu_si128((__m128i*)p, half_bits(x, p));
}
template <class T>
INLINE void vstore_n(T* p, vf x, i64 n) {
  __m128i rest = half_bits(x, p);
  if (n >= NL) return _mm_storeu_si128((__m128i*)p, rest);
  if (n & 4) _mm_storel_epi64((__m128i*)p, rest), rest = _mm_srli_si128(rest, 8), p += 4;
  if (n & 2) _mm_storeu_si32(p, rest), rest = _mm_srli_si128(rest, 4), p += 2;
  if (n & 1) memcpy(p, &rest, sizeof(T));
}
INLINE vf vfma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
// NaN in b is kept, NaN in a is not.
INLINE vf vmax(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf vmin(vf a, vf b) { return _mm256_min_ps(a, b); }
INLINE vf vxor(vf a, uint32_t bits) { return _mm256_xor_ps(a, vset(as_float(bits))); }
INLINE vf vabs(vf a) { return _mm256_andnot_ps(vset(-0.0f), a); }
INLINE vf viota() { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
INLINE vf vpick(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
INLINE vm vabove(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
// Lanes lo <= lane < hi; both in [0, NL].
INLINE vm vrange(i64 lo, i64 hi) { return _mm256_castsi256_ps(_mm256_andnot_si256(first_lanes(lo), first_lanes(hi))); }
INLINE float vsum(vf x) {
  __m128 a = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
INLINE float vtop(vf x) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
INLINE vf vquotient(vf p, vf q) { return _mm256_div_ps(p, q); }
// At -127 the sum of exponents is 0 and the fraction 1: exactly 0. A NaN converts to 0x80000000, which is shifted out.
INLINE vf vexp2(vf x) {
  x = vmax(vset(-127.0f), x);
  vf whole = _mm256_floor_ps(x);
  vf p = exp2_fraction(_mm256_sub_ps(x, whole));
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23)));
}
INLINE void vmul_wide(vu a, uint32_t m, vu& hi, vu& lo) {
  vi b = _mm256_set1_epi32((int)m), x = (vi)a;
  vi even = _mm256_mul_epu32(x, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), b);
  lo = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  hi = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
INLINE vu vlanes() { return (vu)vlanes_i(); }
INLINE vm vreaches(vu a, uint32_t least) {
  vi x = (vi)a;
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(x, _mm256_set1_epi32((int)least)), x));
}
