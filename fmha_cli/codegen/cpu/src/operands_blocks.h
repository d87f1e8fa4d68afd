// Operands of the tile loop in blocks: K lies in memory as it does; Q, V and the weights are packed.
typedef float VALUE;  // the bits of two bf16
enum { V_STEP = 4 };  // keys for each step of the value product

INLINE i64 value_copy_stride(i64 columns) { return 2 * whole_columns(columns); }
INLINE i64 key_copy_stride(i64 columns) { return whole_columns(columns); }
INLINE i64 query_columns(i64 hdim) { return hdim; }
template <class E>
INLINE vf load_columns(const E* p, i64 n) { return vload_n(p, n); }

// Weights: [4 keys][2 queries] blocks.
INLINE void drop_weight(float* p, i64 j, int z, vf keep) {
  bf16* at = (bf16*)(p + j / BLOCK * 2 * BQ) + z * NL * BLOCK + j % BLOCK;
  const vu kept = (vu)keep;
  for (int lane = 0; lane < NL; ++lane)
    if (!kept[lane]) at[lane * BLOCK].bits = 0;
}

static void copy_keys(const Context& x, KEY* out, const KeyRows& in, i64 first, i64 rows, i64 columns) {
  bf16 room[BYTES ? MAX_HDIM : 1];
  for (i64 r = 0; r < rows; ++r, out += key_copy_stride(columns))
    memcpy(out, wide_row(x, room, row_at(in, first + r), columns), (size_t)columns * sizeof(KEY));
}
// 4 rows of V as one row of [2 columns] blocks; behind the last key and column stand zeros.
static void copy_values(const Context& x, VALUE* out, const KeyRows& in, i64 first, i64 rows, i64 rows_left, i64 columns) {
  bf16 room[V_STEP][BYTES ? MAX_HDIM : 1];
  for (i64 r = 0; r < rows; r += V_STEP) {
    const bf16* at[V_STEP];
    for (int n = 0; n < V_STEP; ++n)
      at[n] = r + n < rows_left ? wide_row(x, room[n], row_at(in, first + r + n), columns) : nullptr;
    for (i64 d = 0; d < columns; d += NL, out += 2 * NL) {
      vf row[V_STEP];
      for (int n = 0; n < V_STEP; ++n) row[n] = at[n] ? vload_n(at[n] + d, min64(NL, columns - d)) : vset(0);
      const vf low = vzip(row[0], row[1]), high = vzip(row[2], row[3]);
      vstore(out, words_low(low, high));
      vstore(out + NL, words_high(low, high));
    }
  }
}
