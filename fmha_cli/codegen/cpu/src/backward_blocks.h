// Operands of the backward products in blocks of bf16. A word is a pair of neighbouring columns, or of neighbouring rows; a
// step is two rows, and steps come in twos.
enum { STEP = 2, GROUP = 2, ONE_FORM = 0 };  // rows in a step; steps in a block; whether words and steps look the same

INLINE i64 query_columns(i64 d) { return whole_columns(d) / 2; }
INLINE vf load_columns(const T* p, i64 n) { return vload_n(p, n); }

// Rows r .. r + 3 of a tensor as two rows of blocks, with zeros behind the last column and in rows [rows, all).
static void copy_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; r += 4, out += 2 * padded(d))
    for (i64 c = 0; c < d; c += NL) {
      vf row[4];
      for (i64 n = 0; n < 4; ++n) row[n] = r + n < rows ? vload_n(in + (r + n) * stride + c, min64(NL, d - c)) : vset(0);
      const vf low = vzip(row[0], row[1]), high = vzip(row[2], row[3]);
      vstore(out + c, words_low(low, high));
      vstore(out + padded(d) + c, words_high(low, high));
    }
}
// Gradients of the scores of two neighbouring keys, in blocks of 4 keys.
INLINE void store_steps(float* at, i64 key, vf ds0, vf ds1) {
  const vf pairs = vjoin(ds0, ds1);
  if (key % 4 == 0) return vstore(at, pairs);  // until the next two keys are there
  const vf first = vload(at - BQ);
  vstore(at - BQ, words_low(first, pairs));
  vstore(at, words_high(first, pairs));
}
