// Operands of the backward products in pairs of bf16: a word is a pair of neighbouring columns, or of neighbouring
// rows; a step is two rows.
typedef bf16 WEIGHT;
enum { STEP = 2, GROUP = 1, ONE_FORM = 0 };  // rows in a step; steps that belong together; whether rows of words and rows of steps look the same

INLINE vf vword(const char* p) { return vpair(load32(p)); }
INLINE i64 query_columns(i64 d) { return (d + 1) / 2; }
INLINE vf load_columns(const T* p, i64 n) { return vload_pairs(p, n); }
INLINE i64 row_words(i64 d) { return query_columns(d); }

// Rows r and r + 1 of a tensor as one row of pairs, with zeros behind the last column and in rows [rows, all).
static void copy_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; r += 2, in += 2 * stride, out += padded(d))
    for (i64 c = 0; c < d; c += NL) {
      const i64 n = min64(NL, d - c);
      const vf a = r < rows ? vload_n(in + c, n) : vset(0), b = r + 1 < rows ? vload_n(in + stride + c, n) : vset(0);
      vstore(out + c, vzip(a, b));
    }
}
// Rows of a tensor as they are, with zeros behind an odd last column and in rows [rows, all).
static void copy_words(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; ++r, in += stride, out += row_words(d)) {
    out[row_words(d) - 1] = 0;
    if (r < rows)
      memcpy(out, in, (size_t)d * sizeof(T));
    else
      memset(out, 0, (size_t)row_words(d) * sizeof(float));
  }
}

// Weights and gradients of the scores of two neighbouring keys: [key][BQ], gradients also in pairs of keys.
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
  vstore(s.ds_steps + key / 2 * BQ + query, vjoin(ds0, ds1));
}
