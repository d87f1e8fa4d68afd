// A tile of queries against a block of keys, in matrix tiles. For PRODUCT_ROWS keys at a time, P and dS, and at once
//   dV[key][:] += P^T[key][query] dO[query][:]     dK[key][:] += dS^T[key][query] Q[query][:]
// while they are in the first-level cache, and because tiles that pause are slow to go on; for all keys of the block
//   dQ^T[:][query] += K^T[:][key] dS[key][query]
// transposed, because dS is at hand in pairs of keys.

enum { PATCH_SUMS = 1, NEAR_QUERIES = 64 };  // whether a patch of dQ is summed before it is added; queries that share K^T

// Keys [j0, j1) of a block against a tile. dq: the tile's columns of dQ in fp32, [column][BQ], which hold nothing yet if `first`.
static void add_patch(Tile& t, const Rows& rows, const Group& g, const Scores& scores, i64 j0, i64 j1, float* dq, bool first) {
  const FmhaCpuArgs& a = *t.head.x->a;
  const i64 k = padded(a.hdim), v = padded(a.hdim_v);
  PreparedKeys keys = {g, row_words(a.hdim) * (i64)sizeof(float), row_words(a.hdim_v) * (i64)sizeof(float)};
  Seen seen[BQ / SQUARE][BC / PRODUCT_ROWS];  // by 32 queries
  i64 count[BQ / SQUARE] = {};
  for (i64 j = j0; j < j1; j += PRODUCT_ROWS) {
    i64 from, to;
    query_steps(t, j, j + PRODUCT_ROWS, from, to);
    if (from >= to) continue;
    float* steps = scores.ds_steps + (j - j0) / STEP * BQ;
    ScoreSink sink = {{scores.p, scores.ds, steps}, j};
    weigh_keys(t, j, FAULT_TILE_TAIL ? min64(j + PRODUCT_ROWS, j1) : j + PRODUCT_ROWS, from * STEP / STRIP * STRIP, to * STEP, keys,
               sink);
    add(scores.p + from * STEP, rows.do_steps + from * v, to - from, g.dv + j * v, v);
    add(scores.ds + from * STEP, rows.q_steps + from * k, to - from, g.dk + j * k, k);
    for (i64 q = from * STEP; q < to * STEP; q += SQUARE)
      seen[q / SQUARE][count[q / SQUARE]++] = {g.k_steps + j / STEP * k, steps + q};
  }
  tile_fence();
  for (i64 q0 = 0; q0 < t.rows; q0 += NEAR_QUERIES)
    for (i64 c = 0; c < k; c += SQUARE)
      for (i64 q = q0; q < min64(q0 + NEAR_QUERIES, t.rows); q += SQUARE) {
        const Seen* at = seen[q / SQUARE];
        (k - c > TILE_ROWS ? add_keys<true> : add_keys<false>)(at, at + count[q / SQUARE], c, dq + c * BQ + q, first);
      }
}

// The rows of a tile: dQ from its sums.
static void finish_rows(const Head& head, i64 hk, i64 i0, const float* dq) {
  const FmhaCpuArgs& a = *head.x->a;
  for (i64 q = 0; q < BQ; q += NL) {
    const i64 rows = clamp64(head.s.nq - i0 - q, 0, NL);
    if (!rows) break;
    vf bad = vset(0);
    float found[NL];
    for (i64 c = 0; c < a.hdim; c += NL)
      transpose_out(dq_row(a, head.s, head.b, head.h, i0 + q) + c, a.dq_row_stride, dq + c * BQ + q, vset(head.x->scale), rows,
                    min64(NL, a.hdim - c), bad);
    vstore(found, bad);
    for (i64 n = 0; n < rows; ++n)
      if (found[n] != 0 && !FAULT_HIDDEN_LEAKS) exact_query(head, hk, i0 + q + n);
  }
}
