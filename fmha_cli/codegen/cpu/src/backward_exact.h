// Gradients row by row, from visible pairs alone. Slow; used for rows that came out infinite or NaN: there a hidden pair
// whose weight is 0 may have met an infinite or NaN row (0 * inf = NaN), or one that a bias of -inf hides has a score of NaN.
struct Pair {
  float used, ds;  // weight after dropout, gradient of the scaled product
};

// Whether a bias of -inf hides key j from row i.
INLINE bool hides(const Head& head, i64 i, i64 j) {
  const FmhaCpuArgs& a = *head.x->a;
  return a.bias && to_float(bias_row(a, head.b, head.h, i)[j]) == NEG_INF && !FAULT_BIASED_KEY;
}

// The finished score of a visible pair; slope becomes its derivative by the scaled product.
static float exact_score(const Head& head, i64 hk, i64 i, i64 j, float& slope) {
  const FmhaCpuArgs& a = *head.x->a;
  const Finish f = finish_of(*head.x);
  const T* k = k_rows(a, head.s, hk) + j * a.k_row_stride;
  float score = row_dot(q_row(a, head.s, head.b, head.h, i), k, a.hdim) * f.before;
  slope = 1;
  if (f.cap > 0) {
    const float e = __builtin_exp2f(-2 * LOG2E * vabs(score));
    slope = 4 * e / ((1 + e) * (1 + e));
    score = vtanh(score) * f.cap;
  }
  if (f.bias) score += to_float(bias_row(a, head.b, head.h, i)[j]);
  if (f.alibi) score = vfma(down_of(a, head.b, head.h), vabs((float)(i + head.s.delta - j)), score);
  return score;
}

// top and base of a row, of finished scores. The largest score of other sums of the same products is another number.
struct Numbers {
  float top, base;
};
static Numbers exact_numbers(const Head& head, i64 hk, i64 i) {
  if (head.top[i] == 0) return {0, head.base[i]};
  const Span span = span_of(*head.x, head.s, i, i);
  float top, sum, slope;
  start_row(*head.x, head.h, 1, top, sum);
  for (i64 j = span.head ? 0 : span.lo; j < span.hi; j = j + 1 == span.head ? span.lo : j + 1) {
    if (hides(head, i, j)) continue;
    const float score = exact_score(head, hk, i, j, slope), most = vmax(score, top);
    if (most == NEG_INF) continue;
    sum = sum * __builtin_expf(top - most) + __builtin_expf(score - most);
    top = most;
  }
  return {top, -__builtin_log2f(sum)};
}

static Pair exact_pair(const Head& head, const Numbers& row, i64 hk, i64 i, i64 j) {
  const Context& x = *head.x;
  const FmhaCpuArgs& a = *x.a;
  const T* v = v_rows(a, head.s, hk) + j * a.v_row_stride;
  if (hides(head, i, j)) return {0, 0};
  float slope;
  const float p = __builtin_exp2f(vfma(exact_score(head, hk, i, j, slope) - row.top, LOG2E, row.base));
  if (p == 0) return {0, 0};
  float dp = row_dot(do_row(a, head.s, head.b, head.h, i), v, a.hdim_v) * a.keep_scale, used = p;
  if (a.dropout_threshold) {
    uint32_t c[4] = {(uint32_t)(j >> 2), (uint32_t)i, (uint32_t)(head.b * a.heads + head.h), dropout_offset(a)};
    philox(c, a.seed);
    if (!kept(c[j & 3], a.dropout_threshold)) used = dp = 0;
  }
  return {used, p * (dp - head.delta[i]) * slope};
}

INLINE void add_row(float* sum, float weight, const T* row, i64 n) {
  if (weight != 0)
    for (i64 c = 0; c < n; ++c) sum[c] = vfma(weight, to_float(row[c]), sum[c]);
}

// dQ of one row.
COLD void exact_query(const Head& head, i64 hk, i64 i) {
  const Context& x = *head.x;
  const FmhaCpuArgs& a = *x.a;
  const Span span = span_of(x, head.s, i, i);
  const T* k = k_rows(a, head.s, hk);
  const Numbers row = exact_numbers(head, hk, i);
  float sum[MAX_HDIM] = {};
  for (i64 j = span.head ? 0 : span.lo; j < span.hi; j = j + 1 == span.head ? span.lo : j + 1)
    add_row(sum, exact_pair(head, row, hk, i, j).ds, k + j * a.k_row_stride, a.hdim);
  T* out = dq_row(a, head.s, head.b, head.h, i);
  for (i64 c = 0; c < a.hdim; ++c) from_float(out + c, sum[c] * x.scale);
}

// dK and dV of one key. ``first`` is any head of the sequence.
COLD void exact_key(const Head& first, i64 hk, i64 j) {
  const Context& x = *first.x;
  const FmhaCpuArgs& a = *x.a;
  const Sequence& s = first.s;
  float dk[MAX_HDIM] = {}, dv[MAX_HDIM] = {};
  for (i64 n = 0; n < a.heads / a.kv_heads; ++n) {
    const Head head = other_head(first, head_of(a, hk, n));
    for (i64 i = 0; i < s.nq; ++i) {
      const Span span = span_of(x, s, i, i);
      if (j >= span.head && (j < span.lo || j >= span.hi)) continue;
      const Pair p = exact_pair(head, exact_numbers(head, hk, i), hk, i, j);
      add_row(dk, p.ds, q_row(a, s, head.b, head.h, i), a.hdim);
      add_row(dv, p.used, do_row(a, s, head.b, head.h, i), a.hdim_v);
    }
  }
  T* out_k = dk_row(a, s, first.b, hk, j);
  if (!a.dv) {
    for (i64 c = 0; c < a.hdim; ++c) from_float(out_k + c, vfma(dk[c], x.scale, dv[c] * a.keep_scale));
    return;
  }
  T* out_v = dv_row(a, s, first.b, hk, j);
  for (i64 c = 0; c < a.hdim; ++c) from_float(out_k + c, dk[c] * x.scale);
  for (i64 c = 0; c < a.hdim_v; ++c) from_float(out_v + c, dv[c] * a.keep_scale);
}

// A finished row from its fp32 sums; whether all of it is finite.
INLINE bool write_row(T* out, const float* sum, float factor, i64 n) {
  vf bad = vset(0);
  for (i64 c = 0; c < n; c += NL) {
    const vf y = vload(sum + c) * vset(factor);
    bad = vfma(y, vset(0), bad);
    n - c >= NL ? vstore(out + c, y) : vstore_n(out + c, y, n - c);
  }
  return FAULT_HIDDEN_LEAKS || vsum(bad) == 0;
}

// Where V is in K: finishes the sums of a row of dK, and adds those of dV to the columns that are V.
static void join_values(float* dk, float dk_factor, const float* dv, float dv_factor, const FmhaCpuArgs& a) {
  for (i64 c = 0; c < a.hdim; c += NL) {
    const i64 n = FAULT_DV_IN_K_LOST ? 0 : a.hdim_v - c;
    const vf y = n >= NL ? vload(dv + c) : n > 0 ? vload_n(dv + c, n) : vset(0);
    vstore(dk + c, vfma(y, vset(dv_factor), vload(dk + c) * vset(dk_factor)));
  }
}

// Keys [j0, j1) of a group: dK and dV from its sums.
static void finish_keys(const Head& first, i64 hk, const Group& g, i64 j0, i64 j1) {
  const Context& x = *first.x;
  const FmhaCpuArgs& a = *x.a;
  const float dk_factor = FAULT_DK_SCALE_MISSING ? 1 : x.scale, dv_factor = FAULT_DV_KEEP_MISSING ? 1 : a.keep_scale;
  const bool joined = !a.dv;
  for (i64 j = j0; j < j1; ++j) {
    float *dk = g.dk + j * padded(a.hdim), *dv = g.dv + j * padded(a.hdim_v);
    if (joined) join_values(dk, dk_factor, dv, dv_factor, a);
    const bool k = write_row(dk_row(a, first.s, first.b, hk, j), dk, joined ? 1 : dk_factor, a.hdim);
    const bool v = joined || write_row(dv_row(a, first.s, first.b, hk, j), dv, dv_factor, a.hdim_v);
    if (!k || !v) exact_key(first, hk, j);
  }
}
