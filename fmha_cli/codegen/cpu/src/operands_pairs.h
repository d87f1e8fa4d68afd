// Operands of the tile loop in bf16 pairs: K and Q pair neighbouring columns (as they lie in memory), weights
// and values pair neighbouring keys.
#if !TILES
typedef float VALUE;  // the bits of a pair
enum { V_STEP = 2 };  // keys for each step of the value product
#endif

INLINE void drop_weight(float* p, i64 j, int z, vf keep) {
  float* at = p + (j / 2) * BQ + z * NL;
  const uint32_t other = j & 1 ? 0x0000ffffu : 0xffff0000u;
  vstore(at, (vf)((vu)vload(at) & ((vu)keep | other)));
}
INLINE i64 query_columns(i64 hdim) { return (hdim + 1) / 2; }
INLINE vf load_columns(const bf16* p, i64 n) { return vload_pairs(p, n); }
template <class E>
INLINE vf load_columns(const E* p, i64 n) { return vload_n(p, n); }  // not called: the bias has no columns of pairs

#if !TILES
INLINE i64 whole_columns(i64 columns) { return columns; }
INLINE i64 value_copy_stride(i64 columns) { return columns; }
INLINE i64 key_copy_stride(i64 columns) { return (columns + 1) / 2 * 2; }
static void copy_keys(const Context& x, KEY* out, const KeyRows& in, i64 first, i64 rows, i64 columns) {
  bf16 room[BYTES ? MAX_HDIM : 1];
  for (i64 r = 0; r < rows; ++r, out += key_copy_stride(columns))
    memcpy(out, wide_row(x, room, row_at(in, first + r), columns), (size_t)columns * sizeof(KEY));
}
// Rows r and r + 1 of V as one row of pairs; behind the last key stand zeros.
static void copy_values(const Context& x, VALUE* out, const KeyRows& in, i64 first, i64 rows, i64 rows_left, i64 columns) {
  bf16 room[BYTES ? MAX_HDIM : 1], other[BYTES ? MAX_HDIM : 1];
  for (i64 r = 0; r < rows; r += 2, out += columns) {
    const bf16* at = wide_row(x, room, row_at(in, first + r), columns);
    const bf16* next = r + 1 < rows_left ? wide_row(x, other, row_at(in, first + r + 1), columns) : nullptr;
    for (i64 d = 0; d < columns; d += NL) {
      const i64 n = min64(NL, columns - d);
      const vf a = vload_n(at + d, n), b = next ? vload_n(next + d, n) : vset(0);
      vstore_n(out + d, vzip(a, b), n);
    }
  }
}
#endif
