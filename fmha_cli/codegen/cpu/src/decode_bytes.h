// What tiles need that widen bytes in their registers: 64 columns at a time, in the order that unpacking leaves.
enum { LEFT = CODES };  // columns of a tile at the end of rows
INLINE __mmask64 first_codes(i64 n) { return _bzhi_u64(~0ull, (unsigned)min64(n, CODES)); }
INLINE __m512i load_codes(const byte8* p, __mmask64 some) { return _mm512_maskz_loadu_epi8(some, p); }

// The pairs of columns of one row, as store_query orders them.
template <bool SIGN_BIT>
INLINE void widen_columns(const Widener& by, __m512i x, vf& first, vf& second) {
  __m512i a, b;
  widen_64<SIGN_BIT>(by, x, a, b);
  first = _mm512_castsi512_ps(a), second = _mm512_castsi512_ps(b);
}

// Columns of two rows as pairs of keys. Vector z has columns 4 z to 4 z + 3 of each 16.
template <bool SIGN_BIT>
INLINE void widen_pairs(const Widener& by, __m512i x, __m512i y, vf& a, vf& b, vf& c, vf& d) {
  widen_columns<SIGN_BIT>(by, _mm512_unpacklo_epi8(x, y), a, b);
  widen_columns<SIGN_BIT>(by, _mm512_unpackhi_epi8(x, y), c, d);
}

// From WIDENED_ROWS rows of queries on, the keys of a step are widened once, and wait in the first-level cache.
NOINLINE WideRows widen_keys(const Lines& l, i64 n, i64 columns, float* to) {
  const Widener by = widener_of(*l.by);
  const ROW* later = l.far_at;
  const WideRows out = {to, ceil_div(columns, CODES) * 2 * NL};
  for (i64 t = 0; t < n; ++t)
    for (i64 c = 0; c < columns; c += CODES, to += 2 * NL) {
      const ROW* from = l.first + t * l.stride + c;
      vf a, b;
      ask<false>(l, from, later);
      widen_columns<false>(by, load_codes(from, first_codes(columns - c)), a, b);
      vstore(to, a), vstore(to + NL, b);
    }
  return out;
}

NOINLINE WideRows widen_values(const Lines& l, i64 n, i64 columns, float* to) {
  const Widener by = widener_of(*l.by);
  const ROW* later = l.far_at;
  const WideRows out = {to, ceil_div(columns, CODES) * 2 * NL};
  for (i64 t = 0; t < n; t += 2)
    for (i64 c = 0; c < columns; c += CODES, to += 4 * NL) {
      const ROW *from = l.first + t * l.stride + c, *next = from + (t + 1 < n ? l.stride : 0);
      const __mmask64 some = first_codes(columns - c);
      vf a, b, e, f;
      ask<false>(l, from, later), ask<false>(l, next, later);
      widen_pairs<false>(by, load_codes(from, some), load_codes(next, some), a, b, e, f);
      vstore(to, a), vstore(to + NL, b), vstore(to + 2 * NL, e), vstore(to + 3 * NL, f);
    }
  return out;
}

// O of a row from that order into the order of memory.
static void straighten(float* o, i64 columns) {
  for (i64 c = 0; c < columns; c += CODES, o += CODES) {
    const vf a = vload(o), b = vload(o + NL), e = vload(o + 2 * NL), f = vload(o + 3 * NL);
    const vf ab = _mm512_shuffle_f32x4(a, b, 0x44), ef = _mm512_shuffle_f32x4(e, f, 0x44);
    const vf ba = _mm512_shuffle_f32x4(a, b, 0xee), fe = _mm512_shuffle_f32x4(e, f, 0xee);
    vstore(o, _mm512_shuffle_f32x4(ab, ef, 0x88)), vstore(o + NL, _mm512_shuffle_f32x4(ab, ef, 0xdd));
    vstore(o + 2 * NL, _mm512_shuffle_f32x4(ba, fe, 0x88)), vstore(o + 3 * NL, _mm512_shuffle_f32x4(ba, fe, 0xdd));
  }
}
