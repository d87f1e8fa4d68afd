// Operands of the tile loop in matrix tiles. Queries and weights are rows of pairs as without them; a row of K is read
// in steps of 32 columns; V is copied in tiles of 16 columns and 32 keys, transposed. Zeros fill what is not whole.
typedef float VALUE;          // the bits of a pair of keys
enum { V_STEP = TILE_KEYS };  // keys for each step of the value product

INLINE i64 key_width(i64 hdim) { return ceil_div(hdim, 32) * 32; }
INLINE i64 whole_columns(i64 columns) { return ceil_div(columns, TILE_ROWS) * TILE_ROWS; }
INLINE i64 value_copy_stride(i64 hdim_v) { return whole_columns(hdim_v) * (TILE_BYTES / 4); }

INLINE void clear_rows(float* from, const float* to) {
  for (; from < to; from += NL) vstore(from, vset(0));
}
INLINE void pad_queries(float* q, i64 hdim) { clear_rows(q + query_columns(hdim) * BQ, q + key_width(hdim) / 2 * BQ); }
INLINE void pad_weights(float* p, i64 n) {
  if (!FAULT_TILE_TAIL) clear_rows(p + (n + 1) / 2 * BQ, p + ceil_div(n, TILE_KEYS) * TILE_ROWS * BQ);
}

INLINE i64 key_copy_stride(i64 columns) { return key_width(columns); }
static void copy_keys(const Context& x, KEY* out, const KeyRows& in, i64 first, i64 rows, i64 columns) {
  bf16 room[BYTES ? MAX_HDIM : 1];
  for (i64 r = 0; r < rows; ++r, out += key_width(columns)) {
    memcpy(out, wide_row(x, room, row_at(in, first + r), columns), (size_t)columns * sizeof(KEY));
    memset(out + columns, 0, (size_t)(key_width(columns) - columns) * sizeof(KEY));
  }
}
// Rows r and r + 1 of V as pairs in row r / 2 of a square, which is transposed; behind the last key stand zeros.
static void copy_values(const Context& x, VALUE* out, const KeyRows& in, i64 first, i64 rows, i64 rows_left, i64 columns) {
  bf16 room[TILE_KEYS][BYTES ? MAX_HDIM : 1];
  const bf16* row[TILE_KEYS];
  float square[NL * NL];
  for (i64 r = 0; r < rows; r += TILE_KEYS, out += value_copy_stride(columns)) {
    for (i64 n = 0; n < TILE_KEYS; ++n)
      row[n] = r + n < rows_left ? wide_row(x, room[n], row_at(in, first + r + n), columns) : nullptr;
    for (i64 d = 0; d < whole_columns(columns); d += NL)
      for (i64 part = 0; part < TILE_KEYS; part += 2 * NL) {
        const i64 left = clamp64(columns - d, 0, NL);
        for (i64 pair = 0; pair < NL; ++pair) {
          const bf16 *at = row[part + 2 * pair], *next = row[part + 2 * pair + 1];
          const vf a = at && left ? vload_n(at + d, left) : vset(0), b = next && left ? vload_n(next + d, left) : vset(0);
          vstore(square + pair * NL, FAULT_TILE_PAIRS ? vzip(b, a) : vzip(a, b));
        }
        transpose_square(out + d * TILE_ROWS + part / 2, TILE_ROWS, square, NL);
      }
  }
}
