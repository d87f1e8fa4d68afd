// Weights and gradients of two neighbouring keys to their places.
INLINE void store_scores(const Scores& s, i64 key, i64 query, vf p0, vf p1, vf ds0, vf ds1) {
  const i64 at = key * BQ + query;
  const vf ds = vround(ds0, ds1);
  vstore_rows(s.p + at, s.p + at + BQ, vround(p0, p1));
  vstore_rows(s.ds + at, s.ds + at + BQ, ds);
  vstore(s.ds_steps + key / STEP * BQ + query, vpairs(ds));
}
