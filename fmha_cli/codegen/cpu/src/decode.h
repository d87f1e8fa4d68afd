// Blocks of keys against all rows of a group, into a part.
struct DecodeScratch {
  float *q, *p;  // [row][q_stride], [row][BC]
  Part part;
};

INLINE i64 q_stride_of(const FmhaCpuArgs& a) { return ceil_div(a.hdim, QUERY_STEP) * NL; }
INLINE i64 decode_floats(const FmhaCpuArgs& a, i64 rows) {
  return (rows * (q_stride_of(a) + BC) + part_floats(a, rows) + 63) / 64 * 64;
}

static void load_queries(const Group& g, float* q) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row) {
    const QT* from = q_row(a, g.s, g.b, head_of(g, row), query_of(g, row));
    for (i64 c = 0; c < a.hdim; c += QUERY_STEP, q += NL) vstore(q, load_query(from + c, min64(QUERY_STEP, a.hdim - c)));
  }
}

// Raw scores of n keys into p.
template <Read R>
static void score_keys(const Group& g, const float* q, float* p, const Lines& keys, i64 n) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 q_stride = q_stride_of(a);
  enum { FEW = NL / MANY };
  i64 row = 0;
  for (; row + MANY <= g.rows; row += MANY)
    for (i64 j = 0; j < n; j += FEW) {
      float s[NL];
      vstore(s, DOT_MANY<R>(q + row * q_stride, q_stride, from_line<R>(keys, j), n - 1 - j, a.hdim));
      for (i64 r = 0; r < MANY; ++r) memcpy(p + (row + r) * BC + j, s + r * FEW, FEW * sizeof(float));
    }
  for (; row < g.rows; ++row)
    for (i64 j = 0; j < n; j += NL)
      vstore(p + row * BC + j, dot_1<R>(q + row * q_stride, q_stride, from_line<R>(keys, j), n - 1 - j, a.hdim));
}

// Factors of the keys of a block, where they change from key to key; 1 behind the last one.
struct Factors {
  float k[BYTES ? BC : 1], v[BYTES ? BC : 1];
};

static const Factors* factors_of(const Group& g, i64 j0, i64 n, Factors& out) {
  const FmhaCpuArgs& a = *g.x->a;
  if (!by_key(a)) return nullptr;
  for (i64 t = 0; t < BC; ++t) {
    out.k[t] = t < n ? key_factor(a, a.k_scale, g.b, g.hk, j0 + t) : 1;
    out.v[t] = t < n ? key_factor(a, a.v_scale, g.b, g.hk, j0 + t) : 1;
  }
  return &out;
}

// Lane by lane whether keys j.. are kept; weights that are not become 0.
static vf drop(const Context& x, vf weight, i64 b, i64 h, i64 i, i64 j) {
  const FmhaCpuArgs& a = *x.a;
  vu c[4] = {(vlanes() + (uint32_t)j) >> 2, vu{} + (uint32_t)i, vu{} + (uint32_t)(b * a.heads + h), vu{} + a.offset};
  philox(c, a.seed);
  for (int lane = 0; lane < NL; ++lane)
    if (!kept(c[lane & 3][lane], a.dropout_threshold)) weight[lane] = 0;
  return weight;
}

// Scores of one row to weights, in place; updates top and sum, returns the factor for the past.
static float weigh_row(const Group& g, i64 row, float* p, i64 j0, i64 n, float& top, float& sum, bool last, const Factors* by) {
  const Context& x = *g.x;
  const FmhaCpuArgs& a = *x.a;
  const i64 h = head_of(g, row), i = query_of(g, row);
  const Span span = span_of(x, g.s, i, i);
  const BT* bias = a.bias ? bias_row(a, g.b, h, i) + j0 : nullptr;
  const vf down = vset(down_of(a, g.b, h));
  const Scaled scaled = scaled_of(x, g.b, h, i);
  const Finish f = scaled.finish;
  // Without features the scale is part of the exponent's factor; its sign is not.
  const vf sign = vset(scaled.flip ? -1.0f : 1.0f), hidden = vset(NEG_INF);
  vf peak = hidden;
  for (i64 t = 0; t < n; t += NL) {
    const i64 j = j0 + t, count = min64(NL, n - t);
    vf s = vload(p + t) * sign;
    if (BYTES && by) s = s * vload(by->k + t);
    if (scaled.featured) {
      const vf add = bias ? vload_n(bias + t, count) : vset(0), distance = vset((float)(i + g.s.delta - j)) - viota();
      s = f.cap > 0 ? finish_score<true>(f, s, add, distance, down) : finish_score<false>(f, s, add, distance, down);
    }
    const vm window = vrange(clamp64(span.lo - j, 0, NL), clamp64(min64(span.hi - j, count), 0, NL));
    const vm sink = vrange(0, clamp64(min64(span.head - j, count), 0, NL));
    s = vpick(window, s, vpick(sink, s, hidden));
    vstore(p + t, s);
    peak = vmax(s, peak);
  }
  const float raised = vmax(vtop(peak) * scaled.exponent, top), floor = raised == NEG_INF ? 0 : raised;
  const float shrink = __builtin_exp2f(top - floor);
  const vf c = vset(scaled.exponent), base = vset(-floor);
  vf total = vset(0);
  for (i64 t = 0; t < n; t += NL) {
    vf w = vexp2(vfma(vload(p + t), c, base));
    total += w;
    if (a.dropout_threshold) w = drop(x, w, g.b, h, i, j0 + t);
    if (BYTES && by) w = w * vload(by->v + t);
    vstore(p + t, w);
  }
  top = raised;
  sum = FAULT_ROW_SUM_SHORT && last ? sum * shrink : sum * shrink + vsum(total);
  if (FAULT_V_ROWS_SWAPPED && n > 1) {
    const float w = p[0];
    p[0] = p[1], p[1] = w;
  }
  return FAULT_STALE_MAX ? 1.0f : shrink;
}

// O += weights times V of n keys.
template <Read R>
static void mix_values(const Group& g, const float* p, float* o, const Lines& values, i64 n, const float* shrink) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 o_stride = o_stride_of(a);
  enum { KEYS = 16 };  // their rows of V stay in the first-level cache for all rows and columns
  float ones[MAX_ROWS];
  for (i64 row = 0; row < MAX_ROWS; ++row) ones[row] = 1;
  for (i64 j = 0; j < n; j += KEYS) {
    const i64 keys = min64(KEYS, n - j);
    const Lines v = from_line<R>(values, j);
    const float* factor = j ? ones : shrink;
    for (i64 row = 0; row < g.rows;) {
      const bool many = row + MANY <= g.rows;
      const float* w = p + row * BC + j;
      float* out = o + row * o_stride;
      i64 c = 0;
      for (; c + NZ * NL <= a.hdim_v; c += NZ * NL)
        (many ? MIX_MANY<R> : MIX_ONE<R>)(out + c, o_stride, w, BC, v, c, keys, factor + row, NL);
      for (; c < a.hdim_v; c += NL)
        (many ? MIX_MANY_N<R> : MIX_ONE_N<R>)(out + c, o_stride, w, BC, v, c, keys, factor + row, min64(NL, a.hdim_v - c));
      row += many ? MANY : 1;
    }
  }
  if (FAULT_LOW_PRECISION_ACC)
    for (i64 e = 0; e < g.rows * o_stride; ++e) {
      LOW low;
      from_float(&low, o[e]);
      o[e] = to_float(low);
    }
}

#if BYTES
enum { STAGE = 16 };  // keys that are widened at a time; they stay in the first-level cache
INLINE i64 staged_stride(i64 columns) { return ceil_div(columns, 64) * 64; }

template <Read R>
static Lines staged(const Context& x, const Source& from, i64 n, i64 columns, ROW* room) {
  const i64 stride = staged_stride(columns);
  for (i64 j = 0; j < n; ++j) {
    const KT* row = line<R>(from, j);
    for (i64 c = 0; c < columns; c += 64) ask<R>(from, j, row + c, c);
    widen(x.keys, room + j * stride, row, columns);
  }
  return {room, stride, nullptr, 0, 0};
}

template <Read R>
static void score_block(const Group& g, const float* q, float* p, const Source& keys, i64 n) {
  const i64 columns = g.x->a->hdim;
  ROW room[STAGE * ((MAX_HDIM + 63) / 64 * 64)];
  for (i64 t = 0; t < n; t += STAGE) {
    const i64 count = min64(STAGE, n - t);
    score_keys<STAGED>(g, q, p + t, staged<R>(*g.x, from_line<R>(keys, t), count, columns, room), count);
  }
}
template <Read R>
static void mix_block(const Group& g, const float* p, float* o, const Source& values, i64 n, const float* shrink) {
  const i64 columns = g.x->a->hdim_v;
  ROW room[STAGE * ((MAX_HDIM + 63) / 64 * 64)];
  float ones[MAX_ROWS];
  for (i64 row = 0; row < MAX_ROWS; ++row) ones[row] = 1;
  for (i64 t = 0; t < n; t += STAGE) {
    const i64 count = min64(STAGE, n - t);
    mix_values<STAGED>(g, p + t, o, staged<R>(*g.x, from_line<R>(values, t), count, columns, room), count, t ? ones : shrink);
  }
}
#else
template <Read R>
INLINE void score_block(const Group& g, const float* q, float* p, const Source& keys, i64 n) { score_keys<R>(g, q, p, keys, n); }
template <Read R>
INLINE void mix_block(const Group& g, const float* p, float* o, const Source& values, i64 n, const float* shrink) {
  mix_values<R>(g, p, o, values, n, shrink);
}
#endif

// Blocks [first, end) of a group into a part; the part that leads holds what every row starts with.
template <Read R>
static void attend(const Group& g, i64 first, i64 end, bool leads, const DecodeScratch& work) {
  const FmhaCpuArgs& a = *g.x->a;
  const Part& part = work.part;
  const i64 blocks = blocks_of(g);
  for (i64 row = 0; row < g.rows; ++row) {
    part.top[row] = NEG_INF, part.sum[row] = 0;
    if (leads) start_row(*g.x, head_of(g, row), part.top[row], part.sum[row]);
  }
  memset(part.o, 0, (size_t)(g.rows * o_stride_of(a)) * sizeof(float));
  load_queries(g, work.q);
  const KeyRows k = key_rows(a, g.s, g.b, g.hk), v = value_rows(a, g.s, g.b, g.hk);
  Source keys = lines_of(a, k, a.hdim), values = lines_of(a, v, a.hdim_v);
  const KT* listed[R == PAGES ? 2 : 1][R == PAGES ? BC + MOST_AHEAD + NL : 1];
  for (i64 n = first; n < end; ++n) {
    const i64 j0 = block_start(g, n);
    i64 count = min64(BC, (n * BC < g.head ? g.head : g.hi) - j0);
    if (FAULT_TILE_SKIPPED && n == 1) continue;
    if (FAULT_TILE_SKIPPED && blocks == 1) count = max64(1, count / 2);
    if (R == PAGES) {
      const i64 reach = count + MOST_AHEAD + NL;
      list_rows(k, j0, reach, g.hi - 1, listed[0]);
      list_rows(v, j0, reach, g.hi - 1, listed[R == PAGES]);
      keys.rows = listed[0], values.rows = listed[R == PAGES];
    }
    const i64 at = R == PAGES ? 0 : j0;
    float shrink[MAX_ROWS];
    Factors room;
    const Factors* by = factors_of(g, j0, count, room);
    score_block<R>(g, work.q, work.p, from_line<R>(keys, at), count);
    for (i64 row = 0; row < g.rows; ++row)
      shrink[row] = weigh_row(g, row, work.p + row * BC, j0, count, part.top[row], part.sum[row], n == blocks - 1, by);
    mix_block<R>(g, work.p, part.o, from_line<R>(values, at), count, shrink);
  }
}
