// Keys and values of 8 bits, fp8 or int8: a table says what each byte means. Every meaning is exact in bf16.
struct Meaning {
  float value[256];
  uint8_t low[256], high[256];  // halves of the bf16 number
  // The halves by the byte's size, which is |byte| where a byte is the number itself (int8), else the byte without its sign. Size
  // 0 is that of byte 0x80 (-128, -0 or NaN): byte 0 is always zero, and is not looked up.
  alignas(64) uint8_t low_of[128], high_of[128];
  // Up to `limit` a byte without its sign, shifted, is a number of fp16 over `factor`; int8 is the number itself.
  int shift, limit;
  float factor;
  float unit;  // of the numbers that a byte is converted to
  bool whole, minus_zero;
  bool sign_bit;  // byte 0x80 is minus byte 0, so that the upper half is the lower one with another sign
};

static void read_table(Meaning& out, const float* table) {
  if (!table) return;
  for (int n = 0; n < 256; ++n) {
    out.value[n] = FAULT_WRONG_ENCODING ? table[n] * 0.5f : table[n];
    const uint32_t bits = as_bits(out.value[n]) | (out.value[n] != out.value[n] ? 0x400000u : 0);
    out.low[n] = (uint8_t)(bits >> 16), out.high[n] = (uint8_t)(bits >> 24);
  }
  for (int n = 0; n < 128; ++n) out.low_of[n] = out.low[n ? n : 128], out.high_of[n] = out.high[n ? n : 128] & 0x7f;
  out.whole = table[0x80] == -128;
  out.minus_zero = table[0x80] == 0;
  out.sign_bit = out.minus_zero && !out.whole;
  out.shift = table[9] == 9 * table[1] ? 7 : 8;  // subnormals go up to 7 in e4m3, and to 3 in e5m2
  out.factor = out.value[1] / to_float(f16{(uint16_t)(1 << out.shift)});
  out.unit = out.whole ? out.value[1] : out.factor;
  for (out.limit = 0; out.limit < 127; ++out.limit) {
    const int n = out.limit + 1;
    if (to_float(f16{(uint16_t)(n << out.shift)}) * out.factor != out.value[n]) break;
  }
}

INLINE void widen_one(const Meaning& by, float* out, byte8 in) { *out = by.value[in.bits]; }
INLINE void widen_one(const Meaning& by, bf16* out, byte8 in) { out->bits = (uint16_t)(by.low[in.bits] | by.high[in.bits] << 8); }

#if WIDE_BYTES == 64
// 64 bytes at a time, by lookups in registers (AVX512-VBMI).
struct Widener {
  __m512i low[2], high[2];
  __mmask64 whole;  // all or none
};
INLINE Widener widener_of(const Meaning& by) {
  return {{_mm512_load_si512(by.low_of), _mm512_load_si512(by.low_of + 64)},
          {_mm512_load_si512(by.high_of), _mm512_load_si512(by.high_of + 64)},
          by.whole ? ~0ull : 0};
}
template <bool SIGN_BIT>
INLINE void halves(const Widener& w, __m512i x, __m512i& low, __m512i& high) {
  __m512i size = x;  // its highest bit is not looked at
  __mmask64 some = ~0ull;
  if (!SIGN_BIT) size = _mm512_mask_abs_epi8(x, w.whole, x), some = _mm512_test_epi8_mask(x, x);
  low = _mm512_maskz_permutex2var_epi8(some, w.low[0], size, w.low[1]);
  high = _mm512_maskz_permutex2var_epi8(some, w.high[0], size, w.high[1]);
  high = _mm512_ternarylogic_epi32(high, x, _mm512_set1_epi8((char)0x80), 0x78);  // high ^ (x & 0x80)
}
// Columns 0-7, 16-23, 32-39, 48-55 as bf16, and the others: unpacking stays inside 128 bits.
template <bool SIGN_BIT>
INLINE void widen_64(const Widener& w, __m512i x, __m512i& first, __m512i& second) {
  __m512i low, high;
  halves<SIGN_BIT>(w, x, low, high);
  first = _mm512_unpacklo_epi8(low, high), second = _mm512_unpackhi_epi8(low, high);
}
// Columns 0-31 and 32-63.
INLINE void widen_in_order(const Widener& w, __m512i x, __m512i& first, __m512i& second) {
  widen_64<false>(w, _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), x), first, second);
}
INLINE void widen(const Widener& w, bf16* out, const byte8* in, i64 n) {
  __m512i a, b;
  for (; n >= 64; n -= 64, in += 64, out += 64) {
    widen_in_order(w, _mm512_loadu_si512(in), a, b);
    _mm512_storeu_si512(out, a), _mm512_storeu_si512(out + 32, b);
  }
  if (n <= 0) return;
  const __mmask64 left = _bzhi_u64(~0ull, (unsigned)n);
  widen_in_order(w, _mm512_maskz_loadu_epi8(left, in), a, b);
  _mm512_mask_storeu_epi16(out, (__mmask32)left, a);
  _mm512_mask_storeu_epi16(out + 32, (__mmask32)(left >> 32), b);
}
INLINE void store_wide(float* out, __m256i x, __mmask16 left) {
  _mm512_mask_storeu_epi32(out, left, _mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
INLINE void widen(const Widener& w, float* out, const byte8* in, i64 n) {
  for (; n > 0; n -= 64, in += 64, out += 64) {
    const __mmask64 left = n >= 64 ? ~0ull : _bzhi_u64(~0ull, (unsigned)n);
    __m512i a, b;
    widen_in_order(w, _mm512_maskz_loadu_epi8(left, in), a, b);
    store_wide(out, _mm512_castsi512_si256(a), (__mmask16)left);
    store_wide(out + 16, _mm512_extracti64x4_epi64(a, 1), (__mmask16)(left >> 16));
    store_wide(out + 32, _mm512_castsi512_si256(b), (__mmask16)(left >> 32));
    store_wide(out + 48, _mm512_extracti64x4_epi64(b, 1), (__mmask16)(left >> 48));
  }
}
#else
typedef const Meaning& Widener;
INLINE Widener widener_of(const Meaning& by) { return by; }
#if WIDE_BYTES == 16
// 16 bytes at a time: fp8 by way of fp16, int8 by conversion. Bytes that fp16 cannot express are looked up. What is the same for all
// bytes is copied first, because every store might change the table.
struct Halves {
  __m128i shift, most, minus;  // by how much a byte is shifted; the largest plain one; 0x80 where that is not minus zero, else 0x7f
  __m256i kept;
  __m256 factor;
  explicit Halves(const Meaning& by)
      : shift(_mm_cvtsi32_si128(by.shift)), most(_mm_set1_epi8((char)by.limit)), minus(_mm_set1_epi8(by.minus_zero ? 0x7f : (char)0x80)),
        kept(_mm256_set1_epi16((short)(0x8000 | 0x7f << by.shift))), factor(_mm256_set1_ps(by.factor)) {}
};
INLINE bool are_plain(const Halves& by, __m128i x) {
  const __m128i size = _mm_and_si128(x, _mm_set1_epi8(0x7f));
  return !_mm_movemask_epi8(_mm_or_si128(_mm_cmpgt_epi8(size, by.most), _mm_cmpeq_epi8(x, by.minus)));
}
INLINE void widen_16(const Halves& by, float* out, __m128i x) {
  const __m256i words = _mm256_and_si256(_mm256_sll_epi16(_mm256_cvtepi8_epi16(x), by.shift), by.kept);
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(words)), by.factor));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(words, 1)), by.factor));
}
static void widen(const Meaning& by, float* out, const byte8* in, i64 n) {
  i64 d = 0;
  if (by.whole) {
    for (; d + 8 <= n; d += 8)
      _mm256_storeu_ps(out + d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(in + d)))));
  } else {
    const Halves halves(by);
    for (; d + 16 <= n; d += 16) {
      const __m128i x = _mm_loadu_si128((const __m128i*)(in + d));
      if (__builtin_expect(are_plain(halves, x), 1))
        widen_16(halves, out + d, x);
      else
        for (int t = 0; t < 16; ++t) widen_one(by, out + d + t, in[d + t]);
    }
  }
  for (; d < n; ++d) widen_one(by, out + d, in[d]);
}
#endif
template <class E>
static void widen(const Meaning& by, E* out, const byte8* in, i64 n) {
  for (i64 d = 0; d < n; ++d) widen_one(by, out + d, in[d]);
}
#endif
