// Operands of the tile loop in blocks of bf16 as BFMMLA takes them: two rows of 4 neighbours along the sum fill a register.
// A product of two blocks is 2 x 2 sums. K lies in memory as it does; Q, V and the weights are packed.
typedef float VALUE;  // the bits of two bf16
enum { V_STEP = 4, BLOCK = 4 };  // keys for each step of the value product; elements in a row of a block

INLINE i64 whole_columns(i64 columns) { return ceil_div(columns, BLOCK) * BLOCK; }
INLINE i64 value_copy_stride(i64 columns) { return 2 * whole_columns(columns); }
INLINE i64 key_copy_stride(i64 columns) { return whole_columns(columns); }
INLINE i64 query_columns(i64 hdim) { return hdim; }
INLINE vf load_columns(const T* p, i64 n) { return vload_n(p, n); }

// Up to 4 elements of two rows as a block, zeros behind them.
INLINE vf block_of(const void* first, const void* second, i64 n) {
  uint64_t rows[2] = {0, 0};
  if (n == BLOCK) {
    memcpy(rows, first, BLOCK * sizeof(bf16));
    memcpy(rows + 1, second, BLOCK * sizeof(bf16));
  } else {
    memcpy(rows, first, (size_t)n * sizeof(bf16));
    memcpy(rows + 1, second, (size_t)n * sizeof(bf16));
  }
  return vload((const float*)rows);
}

// Q of one tile: [4 columns][2 queries] blocks, zeros behind the last column and row; flip moves the scale's sign in.
static void pack_queries(float* out, const T* q, i64 q_stride, i64 rows, i64 hdim, uint32_t flip) {
  const T none[BLOCK] = {};
  for (i64 c = 0; c < hdim; c += BLOCK)
    for (i64 r = 0; r < BQ; r += 2, out += NL) {
      const i64 n = min64(BLOCK, hdim - c);
      const T *first = r < rows ? q + r * q_stride + c : none, *second = r + 1 < rows ? q + (r + 1) * q_stride + c : none;
      vstore(out, vxor(block_of(first, second, n), flip | flip >> 16));
    }
}

// Weights: [4 keys][2 queries] blocks.
INLINE void drop_weight(float* p, i64 j, int z, vf keep) {
  bf16* at = (bf16*)(p + j / BLOCK * 2 * BQ) + z * NL * BLOCK + j % BLOCK;
  const vu kept = (vu)keep;
  for (int lane = 0; lane < NL; ++lane)
    if (!kept[lane]) at[lane * BLOCK].bits = 0;
}

static void copy_keys(KEY* out, const KeyRows& in, i64 first, i64 rows, i64 columns) {
  for (i64 r = 0; r < rows; ++r, out += key_copy_stride(columns))
    memcpy(out, row_at(in, first + r), (size_t)columns * sizeof(KEY));
}
// 4 rows of V as one row of [2 columns] blocks; behind the last key and column stand zeros.
static void copy_values(VALUE* out, const KeyRows& in, i64 first, i64 rows, i64 rows_left, i64 columns) {
  for (i64 r = 0; r < rows; r += V_STEP)
    for (i64 d = 0; d < columns; d += NL, out += 2 * NL) {
      vf row[V_STEP];
      for (int n = 0; n < V_STEP; ++n)
        row[n] = r + n < rows_left ? vload_n(row_at(in, first + r + n) + d, min64(NL, columns - d)) : vset(0);
      const vf low = vzip(row[0], row[1]), high = vzip(row[2], row[3]);
      vstore(out, words_low(low, high));
      vstore(out + NL, words_high(low, high));
    }
}
