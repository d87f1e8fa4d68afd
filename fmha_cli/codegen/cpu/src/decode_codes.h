// Tiles that widen bytes in their registers as they read them, a vector at a time: int8 by conversion (FORM), fp8 by way of fp16, of
// which it is then in units. Both are exact. A byte that fp16 cannot express is odd: a tile that saw one begins again, by the table.
struct Codes {
  __m128i shift, kept;
  float unit, inverse;
};
struct Widened {
  static constexpr float unit = 1, inverse = 1;
};
INLINE Codes codes_of(const Lines& l) {
  const Meaning& by = *l.by;
  return {_mm_cvtsi32_si128(by.shift), _mm_set1_epi16((short)(0x8000 | 0x7f << by.shift)), by.unit, 1 / by.unit};
}
INLINE Widened codes_of(const WideRows&) { return {}; }
INLINE const ROW* far_of(const Lines& l) { return l.far_at; }
INLINE const float* far_of(const WideRows& l) { return l.first; }

template <bool WHOLE>
INLINE vf load_codes(const Codes& by, const byte8* p) {
  const __m128i x = _mm_loadl_epi64((const __m128i*)p);
  if (WHOLE) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
  return _mm256_cvtph_ps(_mm_and_si128(_mm_sll_epi16(_mm_cvtepi8_epi16(x), by.shift), by.kept));
}
template <bool WHOLE>
INLINE vf load_codes(const Widened&, const float* p) {
  return vload(p);
}

// What a tile saw of its bytes: the largest sizes, doubled.
struct Seen {
  vi largest;
};
INLINE Seen nothing_seen(const Lines&) { return {_mm256_setzero_si256()}; }
template <bool WHOLE, int N>
INLINE void see(Seen& seen, const byte8* p) {
  if (WHOLE) return;
  for (int c = 0; c < N; c += 32) {
    const __m128i* at = (const __m128i*)(p + c);
    const vi x = N - c >= 32   ? _mm256_loadu_si256((const vi*)at)
                 : N - c >= 16 ? _mm256_zextsi128_si256(_mm_loadu_si128(at))
                               : _mm256_zextsi128_si256(_mm_loadl_epi64(at));
    seen.largest = _mm256_max_epu8(seen.largest, _mm256_add_epi8(x, x));
  }
}
// Whether one of them is odd. Bytes 0x80 that are not minus zero (FNUZ) were looked for before: few caches have them.
template <bool WHOLE>
INLINE bool are_odd(const Lines& l, const Seen& seen) {
  if (WHOLE) return false;
  const vi over = _mm256_subs_epu8(seen.largest, _mm256_set1_epi8((char)(2 * l.by->limit)));
  return l.odd || !_mm256_testz_si256(over, over);
}
static bool holds_no_number(const Lines& l, i64 keys, i64 columns) {
  if (l.by->whole || l.by->minus_zero) return false;
  vi found = _mm256_setzero_si256();
  const vi none = _mm256_set1_epi8((char)0x80);
  for (i64 t = 0; t < keys; ++t)
    for (i64 c = 0; c < columns; c += LINE) {
      const vi x = _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i*)(l.first + t * l.stride + c)));
      found = _mm256_or_si256(found, _mm256_cmpeq_epi8(x, none));
    }
  return _mm256_movemask_epi8(found);
}

// Rows that were widened before are none of these, and ask for nothing.
template <bool FORM>
INLINE void ask(const WideRows&, const float*, const float*&) {}
INLINE Widened nothing_seen(const WideRows&) { return {}; }
template <bool WHOLE, int N>
INLINE void see(Widened&, const float*) {}
template <bool WHOLE>
INLINE bool are_odd(const WideRows&, const Widened&) {
  return false;
}
INLINE vf dot_odd(const float*, i64, const WideRows&, i64, i64, i64) { return vset(0); }
INLINE void mix_odd(float*, i64, const float*, i64, const WideRows&, i64, i64, const float*, i64, i64) {}

// What a tile that saw an odd byte does instead, by the table: lane r * keys + n has the score of query r and key n.
COLD vf dot_odd(const float* query, i64 q_stride, const Lines& k, i64 last, i64 columns, i64 rows) {
  vf out;
  for (i64 lane = 0, keys = NL / rows; lane < NL; ++lane) {
    const byte8* row = k.first + min64(lane % keys, last) * k.stride;
    float s = 0;
    for (i64 c = 0; c < columns; ++c) s += query[lane / keys * q_stride + c] * k.by->value[row[c].bits];
    out[lane] = s;
  }
  return out;
}
COLD void mix_odd(float* o, i64 o_stride, const float* p, i64 p_stride, const Lines& v, i64 c, i64 keys, const float* shrink, i64 rows, i64 n) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 t = 0; t < n; ++t) {
      float sum = o[r * o_stride + t] * shrink[r];
      for (i64 j = 0; j < keys; ++j) sum += p[r * p_stride + j] * v.by->value[v.first[j * v.stride + c + t].bits];
      o[r * o_stride + t] = sum;
    }
}

// From WIDENED_ROWS rows of queries on, a step is widened once, and waits in the first-level cache.
NOINLINE WideRows widen_step(const Lines& l, i64 n, i64 columns, float* to) {
  const ROW* later = l.far_at;
  const WideRows out = {to, columns};
  for (i64 t = 0; t < n; ++t, to += out.stride) {
    const ROW* from = l.first + t * l.stride;
    for (i64 c = 0; c < columns; c += 64) ask<false>(l, from + c, later);
    widen(*l.by, to, from, columns);
  }
  return out;
}
INLINE WideRows widen_keys(const Lines& l, i64 n, i64 columns, float* to) { return widen_step(l, n, columns, to); }
INLINE WideRows widen_values(const Lines& l, i64 n, i64 columns, float* to) { return widen_step(l, n, columns, to); }
