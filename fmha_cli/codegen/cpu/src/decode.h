// Decode: few query rows for each key/value head (a group), so K and V are read once, row by row, at the speed
// of memory, for all of them. Lanes are columns. An item is a group and a range of its blocks of BC keys.
struct Group {
  const Context* x;
  Sequence s;
  i64 b, hk, rows;
  i64 head, lo, hi;  // keys [0, head) and [lo, hi): what any row sees, lo and head at block borders
};

// What an item leaves: for each row the top (exponent of 2), the sum and O.
struct Part {
  float top[MAX_ROWS], sum[MAX_ROWS];
  float o[1];  // [row][o_stride]
};

struct DecodeScratch {
  float *q, *p;  // [row][q_stride], [row][BC]
  Part* part;
};

INLINE i64 o_stride_of(const FmhaCpuArgs& a) { return ceil_div(a.hdim_v, NL) * NL; }
INLINE i64 q_stride_of(const FmhaCpuArgs& a) { return ceil_div(a.hdim, QUERY_STEP) * NL; }
INLINE i64 part_floats(const FmhaCpuArgs& a) { return (2 * MAX_ROWS + MAX_ROWS * o_stride_of(a) + 15) / 16 * 16; }
INLINE i64 decode_floats(const FmhaCpuArgs& a) {
  return (MAX_ROWS * (q_stride_of(a) + BC) + part_floats(a) + 63) / 64 * 64;
}

INLINE i64 head_of(const Group& g, i64 row) {
  const i64 n = row / g.s.nq;
  return FAULT_GQA_HEADS_SWAPPED ? g.hk + n * g.x->a->kv_heads : g.hk * (g.x->a->heads / g.x->a->kv_heads) + n;
}
INLINE i64 query_of(const Group& g, i64 row) { return row % g.s.nq; }

static Group group_at(const Context& x, i64 index) {
  Group g;
  g.x = &x;
  g.b = index / x.a->kv_heads;
  g.hk = index % x.a->kv_heads;
  g.s = sequence_of(x, g.b);
  g.rows = g.s.nq * (x.a->heads / x.a->kv_heads);
  const Span span = span_of(x, g.s, 0, g.s.nq - 1);
  g.hi = span.hi;
  g.lo = min64(span.lo, span.hi) / BC * BC;
  g.head = min64(ceil_div(span.head, BC) * BC, g.lo);
  return g;
}

INLINE i64 blocks_of(const Group& g) { return g.head / BC + ceil_div(g.hi - g.lo, BC); }
INLINE i64 block_start(const Group& g, i64 n) { return n * BC < g.head ? n * BC : g.lo + n * BC - g.head; }

static void load_queries(const Group& g, float* q) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row) {
    const T* from = q_row(a, g.s, g.b, head_of(g, row), query_of(g, row));
    for (i64 c = 0; c < a.hdim; c += QUERY_STEP, q += NL) vstore(q, load_query(from + c, min64(QUERY_STEP, a.hdim - c)));
  }
}

// Raw scores of keys [j0, j0 + n) into p.
template <bool FAR>
static void score_keys(const Group& g, const float* q, float* p, i64 j0, i64 n) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 q_stride = q_stride_of(a);
  const T* k = k_rows(a, g.s, g.b, g.hk) + j0 * a.k_row_stride;
  const Ahead ahead = ahead_of(a, a.k_row_stride, a.hdim);
  enum { FEW = NL / MANY };
  i64 row = 0;
  for (; row + MANY <= g.rows; row += MANY)
    for (i64 j = 0; j < n; j += FEW) {
      float s[NL];
      vstore(s, DOT_MANY<FAR>(q + row * q_stride, q_stride, k + j * a.k_row_stride, a.k_row_stride, n - 1 - j, a.hdim, ahead));
      for (i64 r = 0; r < MANY; ++r) memcpy(p + (row + r) * BC + j, s + r * FEW, FEW * sizeof(float));
    }
  for (; row < g.rows; ++row)
    for (i64 j = 0; j < n; j += NL)
      vstore(p + row * BC + j,
             dot_1<FAR>(q + row * q_stride, q_stride, k + j * a.k_row_stride, a.k_row_stride, n - 1 - j, a.hdim, ahead));
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
static float weigh_row(const Group& g, i64 row, float* p, i64 j0, i64 n, float& top, float& sum, bool last) {
  const Context& x = *g.x;
  const FmhaCpuArgs& a = *x.a;
  const i64 h = head_of(g, row), i = query_of(g, row);
  const Span span = span_of(x, g.s, i, i);
  const T* bias = a.bias ? bias_row(a, g.b, h, i) + j0 : nullptr;
  const vf down = vset(down_of(a, g.b, h));
  const Finish f = finish_of(x);
  // Without features the scale is part of the exponent's factor; its sign is not.
  const vf sign = vset(x.q_flip ? -1.0f : 1.0f), hidden = vset(NEG_INF);
  vf peak = hidden;
  for (i64 t = 0; t < n; t += NL) {
    const i64 j = j0 + t, count = min64(NL, n - t);
    vf s = vload(p + t) * sign;
    if (x.featured) {
      const vf add = bias ? vload_n(bias + t, count) : vset(0), distance = vset((float)(i + g.s.delta - j)) - viota();
      s = f.cap > 0 ? finish_score<true>(f, s, add, distance, down) : finish_score<false>(f, s, add, distance, down);
    }
    const vm window = vrange(clamp64(span.lo - j, 0, NL), clamp64(min64(span.hi - j, count), 0, NL));
    const vm sink = vrange(0, clamp64(min64(span.head - j, count), 0, NL));
    s = vpick(window, s, vpick(sink, s, hidden));
    vstore(p + t, s);
    peak = vmax(s, peak);
  }
  const float raised = vmax(vtop(peak) * x.exponent, top), floor = raised == NEG_INF ? 0 : raised;
  const float shrink = __builtin_exp2f(top - floor);
  const vf c = vset(x.exponent), base = vset(-floor);
  vf total = vset(0);
  for (i64 t = 0; t < n; t += NL) {
    vf w = vexp2(vfma(vload(p + t), c, base));
    total += w;
    if (a.dropout_threshold) w = drop(x, w, g.b, h, i, j0 + t);
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

// O += weights times V.
template <bool FAR>
static void mix_values(const Group& g, const float* p, float* o, i64 j0, i64 n, const float* shrink) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 o_stride = o_stride_of(a);
  const Ahead ahead = ahead_of(a, a.v_row_stride, a.hdim_v);
  const T* v = v_rows(a, g.s, g.b, g.hk) + j0 * a.v_row_stride;
  enum { KEYS = 16 };  // their rows of V stay in the first-level cache for all rows and columns
  float ones[MAX_ROWS];
  for (i64 row = 0; row < MAX_ROWS; ++row) ones[row] = 1;
  for (i64 j = 0; j < n; j += KEYS, v += KEYS * a.v_row_stride) {
    const i64 keys = min64(KEYS, n - j);
    const float* factor = j ? ones : shrink;
    for (i64 row = 0; row < g.rows;) {
      const bool many = row + MANY <= g.rows;
      const float* w = p + row * BC + j;
      float* out = o + row * o_stride;
      i64 c = 0;
      for (; c + NZ * NL <= a.hdim_v; c += NZ * NL)
        (many ? MIX_MANY<FAR> : MIX_ONE<FAR>)(out + c, o_stride, w, BC, v + c, a.v_row_stride, keys, factor + row, NL, ahead);
      for (; c < a.hdim_v; c += NL)
        (many ? MIX_MANY_N<FAR> : MIX_ONE_N<FAR>)(out + c, o_stride, w, BC, v + c, a.v_row_stride, keys, factor + row,
                                                  min64(NL, a.hdim_v - c), ahead);
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

// Blocks [first, end) of a group into a part; the part that leads holds what every row starts with.
template <bool FAR>
static void attend(const Group& g, i64 first, i64 end, bool leads, DecodeScratch& work) {
  const FmhaCpuArgs& a = *g.x->a;
  Part& part = *work.part;
  const i64 blocks = blocks_of(g);
  for (i64 row = 0; row < g.rows; ++row) {
    part.top[row] = NEG_INF, part.sum[row] = 0;
    if (leads) start_row(*g.x, head_of(g, row), part.top[row], part.sum[row]);
  }
  memset(part.o, 0, (size_t)(g.rows * o_stride_of(a)) * sizeof(float));
  load_queries(g, work.q);
  for (i64 n = first; n < end; ++n) {
    const i64 j0 = block_start(g, n);
    i64 keys = min64(BC, (n * BC < g.head ? g.head : g.hi) - j0);
    if (FAULT_TILE_SKIPPED && n == 1) continue;
    if (FAULT_TILE_SKIPPED && blocks == 1) keys = max64(1, keys / 2);
    float shrink[MAX_ROWS];
    score_keys<FAR>(g, work.q, work.p, j0, keys);
    for (i64 row = 0; row < g.rows; ++row)
      shrink[row] = weigh_row(g, row, work.p + row * BC, j0, keys, part.top[row], part.sum[row], n == blocks - 1);
    mix_values<FAR>(g, work.p, part.o, j0, keys, shrink);
  }
}

// Writes the rows of a group from a part.
static void finish(const Group& g, const Part& part) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row) {
    const i64 h = head_of(g, row), i = query_of(g, row);
    const float sum = part.sum[row], *o = part.o + row * o_stride_of(a);
    const vf factor = vset(sum == 0 ? 0 : a.keep_scale / sum);
    T* out = o_row(a, g.s, g.b, h, i);
    vf bad = vset(sum) * vset(0);
    for (i64 c = 0; c < a.hdim_v; c += NL) {
      const i64 n = min64(NL, a.hdim_v - c);
      const vf y = vload_n(o + c, n) * factor;
      bad = vfma(y, vset(0), bad);
      vstore_n(out + c, y, n);
    }
    if (a.lse) *lse_at(a, g.s, g.b, h, i) = lse_of(part.top[row], sum);
    if (vsum(bad) != 0) exact_row(*g.x, g.b, h, i);
    if (FAULT_NAN_ROW && g.b == a.batch - 1 && h == a.heads - 1 && i == g.s.nq - 1)
      for (i64 c = 0; c < a.hdim_v; ++c) from_float(out + c, __builtin_nanf(""));
  }
}

// Adds a part of the same rows to another.
static void merge(const Group& g, Part& into, const Part& from) {
  const i64 o_stride = o_stride_of(*g.x->a);
  for (i64 row = 0; row < g.rows; ++row) {
    const float top = vmax(into.top[row], from.top[row]), floor = top == NEG_INF ? 0 : top;
    const float ours = __builtin_exp2f(into.top[row] - floor), theirs = __builtin_exp2f(from.top[row] - floor);
    for (i64 c = 0; c < o_stride; c += NL) {
      float* o = into.o + row * o_stride + c;
      vstore(o, vfma(vload(o), vset(ours), vload(from.o + row * o_stride + c) * vset(theirs)));
    }
    into.top[row] = top;
    into.sum[row] = into.sum[row] * ours + from.sum[row] * theirs;
  }
}
