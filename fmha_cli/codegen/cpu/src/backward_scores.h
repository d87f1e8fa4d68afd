// Weights and gradients of two neighbouring keys to their places, row by row.
INLINE void store_scores(const Scores& s, i64 key, i64 query, vf p0, vf p1, vf ds0, vf ds1) {
  vstore(s.p + key * BQ + query, p0);
  vstore(s.p + (key + 1) * BQ + query, p1);
  vstore(s.ds + key * BQ + query, ds0);
  vstore(s.ds + (key + 1) * BQ + query, ds1);
  store_steps(s.ds_steps + key / 2 * BQ + query, key, ds0, ds1);
}
