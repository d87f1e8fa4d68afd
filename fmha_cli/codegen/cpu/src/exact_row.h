// One row, key by key. Slow; used for rows that came out infinite or NaN: there a hidden key whose weight
// is 0 may have met an infinite V (0 * inf = NaN), and only visible keys may speak. A bias of -inf hides its key too.
COLD void exact_row(const Context& x, i64 b, i64 h, i64 i) {
  const FmhaCpuArgs& a = *x.a;
  const Sequence s = sequence_of(x, b);
  const i64 hk = kv_head(a, h);
  const QT* q = q_row(a, s, b, h, i);
  const KeyRows keys = key_rows(a, s, b, hk), values = value_rows(a, s, b, hk);
  const Span span = span_of(x, s, i, i);
  const float down = down_of(a, b, h);
  const Scaled scaled = scaled_of(x, b, h, i);
  T* o = o_row(a, s, b, h, i);
  float top, sum, acc[MAX_HDIM], dropped = 0;
  start_row(x, h, 1, top, sum);
  for (i64 d = 0; d < a.hdim_v; ++d) acc[d] = 0;
  for (i64 j = span.head ? 0 : span.lo; j < span.hi; j = j + 1 == span.head ? span.lo : j + 1) {
    float score = 0, bias = a.bias ? to_float(bias_row(a, b, h, i)[j]) : 0;
    if (bias == NEG_INF && !FAULT_BIASED_KEY) continue;
    const KT *k = row_at(keys, j), *v = row_at(values, j);
    Finish f = scaled.finish;
    if (by_key(a)) f.before *= key_factor(a, a.k_scale, b, hk, j);
    for (i64 d = 0; d < a.hdim; ++d) score = vfma(query_value(x, q[d]), key_value(x, k[d]), score);
    const float distance = (float)(i + s.delta - j);
    score = f.cap > 0 ? finish_score<true>(f, score, bias, distance, down)
                      : finish_score<false>(f, score, bias, distance, down);
    if (score > top) {
      float shrink = __builtin_expf(top - score);
      sum *= shrink;
      for (i64 d = 0; d < a.hdim_v; ++d) acc[d] *= shrink;
      top = score;
    }
    float p = top == NEG_INF && score == NEG_INF ? 0 : __builtin_expf(score - top);
    sum += p;
    if (a.dropout_threshold) {
      uint32_t c[4] = {(uint32_t)(j >> 2), (uint32_t)i, (uint32_t)(b * a.heads + h), a.offset};
      philox(c, a.seed);
      if (!kept(c[j & 3], a.dropout_threshold)) p *= dropped;
    }
    if (by_key(a)) p *= key_factor(a, a.v_scale, b, hk, j);
    for (i64 d = 0; d < a.hdim_v; ++d) acc[d] = vfma(p, key_value(x, v[d]), acc[d]);
  }
  float factor = sum == 0 ? 0 : a.keep_scale * scaled.values / sum;
  for (i64 d = 0; d < a.hdim_v; ++d) from_float(o + d, sum == 0 ? 0 : acc[d] * factor);
  if (a.lse) *lse_at(a, s, b, h, i) = lse_of(top, 1, sum);
}
