// Blocks of bf16 as BFMMLA takes them: two rows of 4 neighbours along the sum fill a register; a product of two blocks is 2 x 2
// sums. Packed blocks come in two rows of words: of every 4 rows (or columns) side by side, the first two are the block in the
// first row of words, the others the block at the same place in the second.
enum { BLOCK = 4 };  // elements in a row of a block

INLINE i64 whole_columns(i64 columns) { return ceil_div(columns, BLOCK) * BLOCK; }

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

// Q of one tile in blocks of 4 columns and 2 queries, zeros behind the last column and row; flip moves the scale's sign in.
static void pack_queries(float* out, const bf16* q, i64 q_stride, i64 rows, i64 hdim, uint32_t flip) {
  const bf16 none[BLOCK] = {};
  for (i64 c = 0; c < hdim; c += BLOCK, out += 2 * BQ)
    for (i64 r = 0; r < BQ; r += 2) {
      const bf16 *first = r < rows ? q + r * q_stride + c : none, *second = r + 1 < rows ? q + (r + 1) * q_stride + c : none;
      const vf block = block_of(first, second, min64(BLOCK, hdim - c));
      vstore(out + r / NL * NL + (r % NL ? BQ : 0), vxor(block, flip | flip >> 16));
    }
}
