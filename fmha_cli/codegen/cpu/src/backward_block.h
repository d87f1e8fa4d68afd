// What the products of a tile of queries and a block of keys read: K and V of a group, Q and dO of a tile, prepared.

// K and V of one sequence and key/value head, prepared; dK and dV in fp32, padded.
struct Group {
  float *k, *k_steps, *v, *dk, *dv;
};

INLINE i64 group_floats(const FmhaCpuArgs& a, i64 keys) {
  const i64 rows = whole_products(keys), k = padded(a.hdim), v = padded(a.hdim_v);
  return rows / STEP * k + rows * (k + v) + (ONE_FORM ? 0 : ceil_div(rows * row_words(a.hdim), NL) * NL) +
         ceil_div(rows * row_words(a.hdim_v), NL) * NL;
}
static Group group_at(const FmhaCpuArgs& a, i64 keys, float* room) {
  const i64 rows = whole_products(keys), k = padded(a.hdim), v = padded(a.hdim_v);
  Group g;
  g.dk = room;
  g.dv = g.dk + rows * k;
  g.k_steps = g.dv + rows * v;
  g.k = ONE_FORM ? g.k_steps : g.k_steps + rows / STEP * k;
  g.v = ONE_FORM ? g.k_steps + rows / STEP * k : g.k + ceil_div(rows * row_words(a.hdim), NL) * NL;
  return g;
}

// Keys [j0, j1) of a group from the tensors; j0 is a multiple of ROWS, and j1 too or the end.
static void prepare_keys(const Context& x, const Sequence& s, i64 b, i64 hk, const Group& g, i64 j0, i64 j1) {
  const FmhaCpuArgs& a = *x.a;
  const i64 rows = j1 - j0, all = whole_products(rows), k = padded(a.hdim), v = padded(a.hdim_v);
  const T* from = k_rows(a, s, hk) + j0 * a.k_row_stride;
  copy_key_steps(g.k_steps + j0 / STEP * k, from, a.k_row_stride, rows, all, a.hdim);
  if (!ONE_FORM) copy_words(g.k + j0 * row_words(a.hdim), from, a.k_row_stride, rows, all, a.hdim);
  copy_words(g.v + j0 * row_words(a.hdim_v), v_rows(a, s, hk) + j0 * a.v_row_stride, a.v_row_stride, rows, all, a.hdim_v);
  memset(g.dk + j0 * k, 0, (size_t)(all * k) * sizeof(float));
  memset(g.dv + j0 * v, 0, (size_t)(all * v) * sizeof(float));
}

// Q and dO of one tile in both forms.
struct Rows {
  float *q, *dout, *q_steps, *do_steps;
};
INLINE i64 rows_floats(const FmhaCpuArgs& a) {
  return BQ * (query_columns(a.hdim) + query_columns(a.hdim_v)) + BQ / STEP * (padded(a.hdim) + padded(a.hdim_v));
}
INLINE Rows rows_at(const FmhaCpuArgs& a, float* room) {
  Rows r;
  r.q_steps = room;
  r.do_steps = r.q_steps + BQ / STEP * padded(a.hdim);
  r.q = r.do_steps + BQ / STEP * padded(a.hdim_v);
  r.dout = r.q + BQ * query_columns(a.hdim);
  return r;
}
static void prepare_rows(const Head& head, i64 i0, const Rows& r) {
  const FmhaCpuArgs& a = *head.x->a;
  const i64 rows = min64(BQ, head.s.nq - i0), all = ceil_div(rows, STEP * GROUP) * STEP * GROUP;
  const T *q = q_row(a, head.s, head.b, head.h, i0), *dout = do_row(a, head.s, head.b, head.h, i0);
  pack_queries(r.q, q, a.q_row_stride, rows, a.hdim, 0);
  pack_queries(r.dout, dout, a.dout_row_stride, rows, a.hdim_v, 0);
  copy_steps(r.q_steps, q, a.q_row_stride, rows, all, a.hdim);
  copy_steps(r.do_steps, dout, a.dout_row_stride, rows, all, a.hdim_v);
}

struct PreparedKeys {
  const Group& g;
  i64 k_stride, v_stride;
  KeyStrip k(i64 j) const { return {(const char*)g.k + j * k_stride, k_stride}; }
  KeyStrip v(i64 j) const { return {(const char*)g.v + j * v_stride, v_stride}; }
};
struct ScoreSink {
  enum { HIDES = 0 };
  Scores scores;
  i64 j0;
  void weigh(const Tile& t, i64 j, i64 q, const float* raw, const float* dp, bool care) {
    if (care)
      t.featured ? weigh_strip<true, true>(t, j, q, raw, dp, *this) : weigh_strip<false, true>(t, j, q, raw, dp, *this);
    else
      t.featured ? weigh_strip<true, false>(t, j, q, raw, dp, *this) : weigh_strip<false, false>(t, j, q, raw, dp, *this);
  }
  void take(i64 j, i64 q, const Weighed& x, const Weighed& y) {
    store_scores(scores, j - j0, q, x.used, y.used, x.ds, y.ds);
  }
};

// Steps [from, to) of the queries that see some of the keys [j, end).
INLINE void query_steps(const Tile& t, i64 j, i64 end, i64& from, i64& to) {
  i64 unused;
  rows_that_see(t, j, from, unused);
  const bool sink = j < t.head.x->a->sink;
  rows_that_see(t, sink ? j : min64(end, t.head.s.keys) - 1, unused, to);
  from = from / (STEP * GROUP) * GROUP;
  to = ceil_div(to, STEP * GROUP) * GROUP;
}
