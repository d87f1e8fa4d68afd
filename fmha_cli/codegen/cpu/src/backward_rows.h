// The numbers of each row (Head): from the LSE that the caller has, or from all its scores.

// From here on an LSE is as coarse as 6e-5, the last digit of the scores that it was made of, and the weights with it; from 2^24 on
// nothing is left of the sum.
const float FAR_LSE = 1024;

// The scores of a row as its maximum needs them, of either sign of the scale.
INLINE vf risen(const Tile& t, vf score) { return t.exponent < 0 ? vset(0) - score : score; }

// Scores of ROWS keys and STRIP rows of a tile from their products: into the maximum and the sum of each row.
INLINE void add_scores(Tile& t, i64 j, i64 q0, const float* raw, float* top, float* sum) {
  const vf c = vset(vabs(t.exponent));
  need_bias(t, j);
  for (i64 q = q0; q < q0 + STRIP; q += NL) {
    vf old = vload(top + q), peak = old, s[ROWS], slope;
    const vf distance = viota() + vset((float)(t.i0 + t.head.s.delta + q - j));
    for (int r = 0; r < ROWS; ++r) {
      i64 from, to;
      rows_that_see(t, j + r, from, to);
      const vf one = vload(raw + r * STRIP + q - q0);
      const float* bias = t.bias + (j + r - t.bias_key) * BQ + q;
      s[r] = t.featured ? score_of<true>(t, one, bias, distance - vset((float)r), slope) : risen(t, one);
      if (t.f.bias && !FAULT_BIASED_KEY) s[r] = vpick(hides(vload(bias)), vset(NEG_INF), s[r]);
      s[r] = vpick(vrange(clamp64(from - q, 0, NL), clamp64(to - q, 0, NL)), s[r], vset(NEG_INF));
      peak = vmax(s[r], peak);
    }
    const vf floor = vpick(vabove(peak, vset(NEG_INF)), peak, vset(0));
    vf total = vload(sum + q) * vexp2((old - floor) * c);
    for (int r = 0; r < ROWS; ++r) total += vexp2((s[r] - floor) * c);
    vstore(sum + q, total);
    vstore(top + q, peak);
  }
}

// The largest score of each row of a tile, and the sum of its weights: one pass over the keys that they see.
static void sum_scores(Tile& t, float* room, float* top, float* sum) {
  const Context& x = *t.head.x;
  const FmhaCpuArgs& a = *x.a;
  const T* k = k_rows(a, t.head.s, kv_head(a, t.head.h));
  alignas(64) float raw[PRODUCT_ROWS * STRIP];
  for (i64 n = 0; n < BQ; ++n) start_row(x, t.head.h, t.featured ? 1 : vabs(x.scale), top[n], sum[n]);
  const Ranges ranges = ranges_of(t.head, t.i0, t.rows, 0, t.head.s.nk);
  for (i64 n = 0; n < ranges.count; ++n)
    for (i64 first = ranges.from[n]; first < ranges.to[n]; first += PRODUCT_ROWS) {
      copy_words(room, k + first * a.k_row_stride, a.k_row_stride, min64(PRODUCT_ROWS, t.head.s.nk - first), PRODUCT_ROWS, a.hdim);
      for (i64 q0 = 0; q0 < t.rows; q0 += STRIP) {
        products((const char*)room, row_words(a.hdim) * (i64)sizeof(float), t.q + q0, query_columns(a.hdim), raw);
        for (i64 j = first; j < first + PRODUCT_ROWS; j += ROWS) add_scores(t, j, q0, raw + (j - first) * STRIP, top, sum);
      }
    }
}

INLINE i64 numbers_floats(const FmhaCpuArgs& a) {
  return BQ * query_columns(a.hdim) + NL * BQ + PRODUCT_ROWS * padded(a.hdim);
}

INLINE bool is_far(float lse) { return !FAULT_SCALED_MAXIMUM && vabs(lse) >= FAR_LSE && !__builtin_isinf(lse); }

// top and base of the rows of a tile from all their scores, where no LSE is given or a row's is far.
NOINLINE void weigh_rows(Tile& t, float* room) {
  const Head& head = t.head;
  const FmhaCpuArgs& a = *head.x->a;
  const i64 i0 = t.i0;
  float top[BQ], sum[BQ];
  pack_queries(room, q_row(a, head.s, head.b, head.h, i0), a.q_row_stride, t.rows, a.hdim, 0);
  sum_scores(t, room + BQ * query_columns(a.hdim) + NL * BQ, top, sum);
  for (i64 n = 0; n < t.rows; ++n) {
    if (a.lse && !is_far(*lse_at(a, head.s, head.b, head.h, i0 + n))) continue;
    const bool empty = sum[n] == 0;
    head.top[i0 + n] = empty ? 0 : t.exponent < 0 ? -top[n] : top[n];
    head.base[i0 + n] = empty ? NEG_INF : -__builtin_log2f(sum[n]) * (FAULT_LSE_LOG2 ? LOG2E : 1);
  }
}

// Rows [i0, i0 + BQ) of a head. room: numbers_floats.
static void find_numbers(const Head& head, i64 i0, float* room) {
  const FmhaCpuArgs& a = *head.x->a;
  Tile t = tile_at(head, i0, room, nullptr, room + BQ * query_columns(a.hdim));
  bool far = false;
  for (i64 n = 0; n < BQ; ++n) {
    const bool there = n < t.rows;
    const T *dout = do_row(a, head.s, head.b, head.h, i0 + n), *o = o_row(a, head.s, head.b, head.h, i0 + n);
    head.delta[i0 + n] = there && !FAULT_DELTA_MISSING ? row_dot(dout, o, a.hdim_v) : 0;
    const float lse = there && a.lse ? *lse_at(a, head.s, head.b, head.h, i0 + n) : NEG_INF;
    // A row that sees nothing has an LSE of -inf and weights of 0, not exp(inf).
    head.top[i0 + n] = 0;
    head.base[i0 + n] = lse == NEG_INF && !FAULT_EMPTY_ROW ? NEG_INF : -lse * LOG2E;
    far |= is_far(lse);
  }
  if (!a.lse || far) weigh_rows(t, room);
}
