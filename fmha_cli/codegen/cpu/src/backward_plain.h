// Operands of the backward products in fp32: a word is one float, a step is one row.
typedef float WEIGHT;
enum { STEP = 1, GROUP = 1, ONE_FORM = 1 };  // rows in a step; steps that belong together; whether rows of words and rows of steps look the same

INLINE vf vword(const char* p) { return vset(*(const float*)p); }
INLINE i64 query_columns(i64 d) { return d; }
INLINE vf load_columns(const T* p, i64 n) { return n >= NL ? vload(p) : vload_n(p, n); }
INLINE i64 row_words(i64 d) { return padded(d); }

// Rows of a tensor, converted, with zeros behind the last column and in rows [rows, all).
static void copy_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; ++r, in += stride, out += padded(d))
    for (i64 c = 0; c < d; c += NL)
      vstore(out + c, r >= rows ? vset(0) : d - c >= NL ? vload(in + c) : vload_n(in + c, d - c));
}
static void copy_words(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  copy_steps(out, in, stride, rows, all, d);
}

// Weights and gradients of the scores of two neighbouring keys: [key][BQ].
struct Scores {
  float *p, *ds, *ds_steps;
};
INLINE i64 scores_floats() { return 2 * BC * BQ; }
INLINE Scores scores_at(float* room) { return {room, room + BC * BQ, room + BC * BQ}; }
INLINE void store_scores(const Scores& s, i64 key, i64 query, vf p0, vf p1, vf ds0, vf ds1) {
  vstore(s.p + key * BQ + query, p0);
  vstore(s.p + (key + 1) * BQ + query, p1);
  vstore(s.ds + key * BQ + query, ds0);
  vstore(s.ds + (key + 1) * BQ + query, ds1);
}
