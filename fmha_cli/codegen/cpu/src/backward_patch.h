// A tile of queries against a block of keys: P and dS of all its strips, then the three products that need them.
//   dV[key][:] += P^T[key][query] dO[query][:]     dK[key][:] += dS^T[key][query] Q[query][:]
//   dQ[query][:] += dS[query][key] K[key][:]
// Gradients lie as their tensors do: no sum runs across lanes, and nothing is transposed.

// Steps [from, to) of the keys that some of ROWS queries see.
INLINE void key_steps(const Tile& t, i64 q, i64 j0, i64 j1, i64& from, i64& to) {
  const Context& x = *t.head.x;
  const i64 row = t.i0 + q + t.head.s.delta;
  from = x.has_left && j0 >= x.a->sink ? clamp64(row - x.left, j0, j1) : j0;
  to = x.has_right ? clamp64(row + ROWS + x.right, from, j1) : j1;
  from = (from - j0) / (STEP * GROUP) * GROUP;
  to = ceil_div(to - j0, STEP * GROUP) * GROUP;
}

// Keys whose rows of K stay in the first-level cache while all rows of a tile meet them.
enum { NEAR_BYTES = 24 << 10 };
INLINE i64 near_keys(i64 k) { return max64(4, NEAR_BYTES / (k * (i64)sizeof(float)) / 4 * 4) * STEP; }

enum { PATCH_SUMS = 0 };  // whether a patch of dQ is summed before it is added

// Keys [j0, j1) of a block against a tile. dq: the tile's rows of dQ in fp32, padded, which hold nothing yet if `first`.
static void add_patch(Tile& t, const Rows& rows, const Group& g, const Scores& scores, i64 j0, i64 j1, float* dq, bool first) {
  const FmhaCpuArgs& a = *t.head.x->a;
  const i64 k = padded(a.hdim), v = padded(a.hdim_v), row_bytes = BQ * (i64)sizeof(WEIGHT);
  PreparedKeys keys = {g, row_words(a.hdim) * (i64)sizeof(float), row_words(a.hdim_v) * (i64)sizeof(float)};
  ScoreSink sink = {scores, j0};
  if (first) memset(dq, 0, (size_t)(BQ * k) * sizeof(float));
  weigh_keys(t, j0, j1, 0, t.rows, keys, sink);
  i64 from, to;
  for (i64 j = j0; j < j1; j += ROWS) {
    query_steps(t, j, j + ROWS, from, to);
    add((const char*)(scores.p + (j - j0) * BQ + from * STEP), 4, row_bytes, rows.do_steps + from * v, v, to - from,
        g.dv + j * v, v, v);
  }
  for (i64 j = j0; j < j1; j += ROWS) {
    query_steps(t, j, j + ROWS, from, to);
    add((const char*)(scores.ds + (j - j0) * BQ + from * STEP), 4, row_bytes, rows.q_steps + from * k, k, to - from,
        g.dk + j * k, k, k);
  }
  for (i64 j = j0; j < j1; j += near_keys(k))
    for (i64 q = 0; q < t.rows; q += ROWS) {
      key_steps(t, q, j, min64(j + near_keys(k), j1), from, to);
      add((const char*)(scores.ds_steps + ((j - j0) / STEP + from) * BQ + q), BQ * (i64)sizeof(float), 4,
          g.k_steps + (j / STEP + from) * k, k, to - from, dq + q * k, k, k);
    }
}

// The rows of a tile: dQ from its sums.
static void finish_rows(const Head& head, i64 hk, i64 i0, const float* dq) {
  const FmhaCpuArgs& a = *head.x->a;
  for (i64 n = 0; n < min64(BQ, head.s.nq - i0); ++n)
    if (!write_row(dq_row(a, head.s, head.b, head.h, i0 + n), dq + n * padded(a.hdim), head.x->scale, a.hdim))
      exact_query(head, hk, i0 + n);
}
