// What operands in pairs, in blocks and in matrix tiles of bf16 have in common: weights, and rows whose words are pairs of neighbouring columns.
typedef bf16 WEIGHT;

INLINE i64 row_words(i64 d) { return query_columns(d); }

// Rows of a tensor as they are, with zeros behind the last column and in rows [rows, all).
static void copy_words(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; ++r, in += stride, out += row_words(d)) {
    memset(out + d / 2, 0, (size_t)(row_words(d) - d / 2) * sizeof(float));
    if (r < rows)
      memcpy(out, in, (size_t)d * sizeof(T));
    else
      memset(out, 0, (size_t)row_words(d) * sizeof(float));
  }
}

// Weights and gradients of the scores of two neighbouring keys: [key][BQ], gradients also along the keys.
struct Scores {
  bf16 *p, *ds;
  float* ds_steps;
};
INLINE i64 scores_floats() { return 3 * BC * BQ / 2; }
INLINE Scores scores_at(float* room) {
  return {(bf16*)room, (bf16*)(room + BC * BQ / 2), room + BC * BQ};
}
