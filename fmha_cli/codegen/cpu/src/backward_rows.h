// The two numbers of each row (Head): from the LSE that the caller has, or from all its scores.

// Scores of ROWS keys and STRIP rows of a tile from their products: into the maximum and the sum of each row.
INLINE void add_scores(Tile& t, i64 j, i64 q0, const float* raw, float* top, float* sum) {
  need_bias(t, j);
  for (i64 q = q0; q < q0 + STRIP; q += NL) {
    vf old = vload(top + q), peak = old, s[ROWS], slope;
    const vf distance = viota() + vset((float)(t.i0 + t.head.s.delta + q - j));
    for (int r = 0; r < ROWS; ++r) {
      i64 from, to;
      rows_that_see(t, j + r, from, to);
      s[r] = exponent_of<true>(t, vload(raw + r * STRIP + q - q0), t.bias + (j + r - t.bias_key) * BQ + q,
                               distance - vset((float)r), vset(0), slope);
      s[r] = vpick(vrange(clamp64(from - q, 0, NL), clamp64(to - q, 0, NL)), s[r], vset(NEG_INF));
      peak = vmax(s[r], peak);
    }
    const vf floor = vpick(vabove(peak, vset(NEG_INF)), peak, vset(0));
    vf total = vload(sum + q) * vexp2(old - floor);
    for (int r = 0; r < ROWS; ++r) total += vexp2(s[r] - floor);
    vstore(sum + q, total);
    vstore(top + q, peak);
  }
}

// LSE of the rows of a tile in units of log2, as minus sign and number: one pass over the keys that they see.
static void sum_scores(Tile& t, float* room) {
  const Context& x = *t.head.x;
  const FmhaCpuArgs& a = *x.a;
  const T* k = k_rows(a, t.head.s, kv_head(a, t.head.h));
  alignas(64) float raw[PRODUCT_ROWS * STRIP];
  float top[BQ], sum[BQ];
  for (i64 n = 0; n < BQ; ++n) start_row(x, t.head.h, top[n], sum[n]);
  const Ranges ranges = ranges_of(t.head, t.i0, t.rows, 0, t.head.s.nk);
  for (i64 n = 0; n < ranges.count; ++n)
    for (i64 first = ranges.from[n]; first < ranges.to[n]; first += PRODUCT_ROWS) {
      copy_words(room, k + first * a.k_row_stride, a.k_row_stride, min64(PRODUCT_ROWS, t.head.s.nk - first), PRODUCT_ROWS, a.hdim);
      for (i64 q0 = 0; q0 < t.rows; q0 += STRIP) {
        products((const char*)room, row_words(a.hdim) * (i64)sizeof(float), t.q + q0, query_columns(a.hdim), raw);
        for (i64 j = first; j < first + PRODUCT_ROWS; j += ROWS) add_scores(t, j, q0, raw + (j - first) * STRIP, top, sum);
      }
    }
  for (i64 n = 0; n < t.rows; ++n) t.head.base[t.i0 + n] = -lse_of(top[n], sum[n]) * LOG2E;
}

INLINE i64 numbers_floats(const FmhaCpuArgs& a) {
  return BQ * query_columns(a.hdim) + NL * BQ + PRODUCT_ROWS * padded(a.hdim);
}

// Rows [i0, i0 + BQ) of a head. room: numbers_floats.
static void find_numbers(const Head& head, i64 i0, float* room) {
  const FmhaCpuArgs& a = *head.x->a;
  Tile t = tile_at(head, i0, room, nullptr, room + BQ * query_columns(a.hdim));
  for (i64 n = 0; n < BQ; ++n) {
    const bool there = n < t.rows;
    const T *dout = do_row(a, head.s, head.b, head.h, i0 + n), *o = o_row(a, head.s, head.b, head.h, i0 + n);
    head.delta[i0 + n] = there && !FAULT_DELTA_MISSING ? row_dot(dout, o, a.hdim_v) : 0;
    const float lse = there && a.lse ? *lse_at(a, head.s, head.b, head.h, i0 + n) : NEG_INF;
    // A row that sees nothing has an LSE of -inf and weights of 0, not exp(inf).
    head.base[i0 + n] = lse == NEG_INF && !FAULT_EMPTY_ROW ? NEG_INF : -lse * LOG2E;
  }
  if (a.lse) return;
  pack_queries(room, q_row(a, head.s, head.b, head.h, i0), a.q_row_stride, t.rows, a.hdim, 0);
  sum_scores(t, room + BQ * query_columns(a.hdim) + NL * BQ);
  for (i64 n = 0; n < t.rows; ++n)
    if (head.base[i0 + n] == -NEG_INF) head.base[i0 + n] = NEG_INF;
}
