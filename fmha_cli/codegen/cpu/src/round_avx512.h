// Two vectors rounded to bf16 by one instruction, as two rows and as pairs: an instruction for each row would be one more.
INLINE vf vround(vf a, vf b) { return _mm512_castsi512_ps((vi)_mm512_cvtne2ps_pbh(b, a)); }
INLINE void vstore_rows(bf16* a, bf16* b, vf both) {
  _mm256_storeu_si256((__m256i*)a, _mm512_castsi512_si256(_mm512_castps_si512(both)));
  _mm256_storeu_si256((__m256i*)b, _mm512_extracti64x4_epi64(_mm512_castps_si512(both), 1));
}
INLINE vf vpairs(vf both) {
  const vi weave = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                    4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(weave, _mm512_castps_si512(both)));
}
