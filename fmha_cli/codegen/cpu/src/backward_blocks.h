// Operands of the backward products in blocks of bf16. A word is a pair of neighbouring columns, or of neighbouring rows; a
// step is two rows, and steps come in twos.
typedef bf16 WEIGHT;
enum { STEP = 2, GROUP = 2, ONE_FORM = 0 };  // rows in a step; steps in a block; whether words and steps look the same

INLINE i64 query_columns(i64 d) { return whole_columns(d) / 2; }
INLINE vf load_columns(const T* p, i64 n) { return vload_n(p, n); }
INLINE i64 row_words(i64 d) { return query_columns(d); }

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
// Rows of a tensor as they are, with zeros behind the last column and in rows [rows, all).
static void copy_words(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; ++r, in += stride, out += row_words(d)) {
    memset(out + row_words(d) - 2, 0, 2 * sizeof(float));
    if (r < rows)
      memcpy(out, in, (size_t)d * sizeof(T));
    else
      memset(out, 0, (size_t)row_words(d) * sizeof(float));
  }
}

// Weights and gradients of the scores of two neighbouring keys: [key][BQ], gradients also in blocks of 4 keys.
struct Scores {
  bf16 *p, *ds;
  float* ds_steps;
};
INLINE i64 scores_floats() { return 3 * BC * BQ / 2; }
INLINE Scores scores_at(float* room) {
  return {(bf16*)room, (bf16*)(room + BC * BQ / 2), room + BC * BQ};
}
INLINE void store_scores(const Scores& s, i64 key, i64 query, vf p0, vf p1, vf ds0, vf ds1) {
  vstore(s.p + key * BQ + query, p0);
  vstore(s.p + (key + 1) * BQ + query, p1);
  vstore(s.ds + key * BQ + query, ds0);
  vstore(s.ds + (key + 1) * BQ + query, ds1);
  float* at = s.ds_steps + key / 2 * BQ + query;
  const vf pairs = vjoin(ds0, ds1);
  if (key % 4 == 0) return vstore(at, pairs);  // until the next two keys are there
  const vf first = vload(at - BQ);
  vstore(at - BQ, words_low(first, pairs));
  vstore(at, words_high(first, pairs));
}
