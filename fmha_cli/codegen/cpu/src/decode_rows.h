// What both forms of decode share: the start of a part, and weights from scores.
static void start_part(const Group& g, const Part& part, bool leads) {
  for (i64 row = 0; row < g.rows; ++row) {
    part.top[row] = NEG_INF, part.sum[row] = 0;
    if (!leads) continue;
    const i64 h = head_of(g, row);
    start_row(*g.x, h, scaled_of(*g.x, g.b, h, query_of(g, row)).unit, part.top[row], part.sum[row]);
  }
  memset(part.o, 0, (size_t)(g.rows * o_stride_of(*g.x->a)) * sizeof(float));
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
NOINLINE float weigh_row(const Group& g, i64 row, float* p, i64 j0, i64 n, float& top, float& sum, bool last,
                       const Factors* by) {
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
  const float raised = vmax(vtop(peak), top), floor = raised == NEG_INF ? 0 : raised;
  const float shrink = __builtin_exp2f((top - floor) * scaled.exponent);
  const vf c = vset(scaled.exponent), base = vset(floor);
  vf total = vset(0);
  for (i64 t = 0; t < n; t += NL) {
    const vf s = vload(p + t);
    vf w = vexp2(FAULT_SCALED_MAXIMUM ? vfma(s, c, -(base * c)) : (s - base) * c);
    total += w;
    if (a.dropout_threshold) w = drop(x, w, g.b, h, i, j0 + t);
    if (BYTES && by) w = w * vload(by->v + t);
    vstore((WEIGHT*)p + t, w);
  }
  top = raised;
  sum = FAULT_ROW_SUM_SHORT && last ? sum * shrink : sum * shrink + vsum(total);
  if (FAULT_V_ROWS_SWAPPED && n > 1) {
    WEIGHT *first = (WEIGHT*)p, w = first[0];
    first[0] = first[1], first[1] = w;
  }
  return FAULT_STALE_MAX ? 1.0f : shrink;
}
