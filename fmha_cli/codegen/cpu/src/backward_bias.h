// dBias: the gradients of the scores, summed over the sequences, heads and rows that share an element. A pass of its own, so that
// each element is summed by one thread in one order, without a copy of all scores.
enum { BIAS_CHUNK = 64 * PRODUCT_ROWS };  // keys of a bias without rows that a thread takes at once
struct BiasKeys {  // strips of K and V straight from the tensors
  const T *k_from, *v_from;
  const FmhaCpuArgs& a;
  i64 keys;
  float* room;
  KeyStrip strip(const T* from, i64 stride, i64 j, i64 d) const {
    copy_words(room, from + j * stride, stride, min64(PRODUCT_ROWS, keys - j), PRODUCT_ROWS, d);
    return {(const char*)room, row_words(d) * (i64)sizeof(float)};
  }
  KeyStrip k(i64 j) const { return strip(k_from, a.k_row_stride, j, a.hdim); }
  KeyStrip v(i64 j) const { return strip(v_from, a.v_row_stride, j, a.hdim_v); }
};
struct BiasSink {
  enum { HIDES = 1 };
  float* sums;  // [key][BQ]
  void weigh(const Tile& t, i64 j, i64 q, const float* raw, const float* dp, bool) {
    weigh_strip<true, true>(t, j, q, raw, dp, *this);
  }
  void add(float* at, vf x) { vstore(at, vload(at) + x); }
  void take(i64 j, i64 q, const Weighed& x, const Weighed& y) {
    add(sums + j * BQ + q, x.dbias);
    add(sums + (j + 1) * BQ + q, y.dbias);
  }
};

INLINE i64 bias_keys(const FmhaCpuArgs& a) { return ceil_div(a.seqlen_k, NL) * NL + PRODUCT_ROWS; }
INLINE i64 bias_floats(const FmhaCpuArgs& a) {
  return BQ * (bias_keys(a) + query_columns(a.hdim) + query_columns(a.hdim_v) + NL) +
         PRODUCT_ROWS * padded(max64(a.hdim, a.hdim_v));
}

// The part of dBias that sequences [b0, b1) and heads [h0, h1) share.
struct BiasPart {
  i64 b0, b1, h0, h1;
  i64 i0, i1;  // rows of a tile, or all rows, whose gradients are summed into one
  i64 j0, j1;  // keys; j0 is a multiple of PRODUCT_ROWS
};

// ``head_at(b, h)`` returns a head with its numbers.
template <class Heads>
static void sum_bias(const Context& x, const Heads& head_at, const BiasPart& part, float* room) {
  const FmhaCpuArgs& a = *x.a;
  float *sums = room, *q = sums + bias_keys(a) * BQ, *dout = q + BQ * query_columns(a.hdim);
  float *bias = dout + BQ * query_columns(a.hdim_v);
  memset(sums + part.j0 * BQ, 0, (size_t)((min64(part.j1 + NL + PRODUCT_ROWS, bias_keys(a)) - part.j0) * BQ) * sizeof(float));
  BiasSink sink = {sums};
  for (i64 b = part.b0; b < part.b1; ++b)
    for (i64 h = part.h0; h < part.h1; ++h) {
      const Head head = head_at(b, h);
      if (FAULT_DBIAS_HEAD_LOST && part.h1 - part.h0 > 1 && h == part.h1 - 1) continue;
      const i64 hk = kv_head(a, h);
      BiasKeys keys = {k_rows(a, head.s, hk), v_rows(a, head.s, hk), a, head.s.nk, bias + NL * BQ};
      for (i64 i0 = part.i0; i0 < min64(part.i1, head.s.nq); i0 += BQ) {
        Tile t = tile_at(head, i0, q, dout, bias);
        pack_queries(q, q_row(a, head.s, b, h, i0), a.q_row_stride, t.rows, a.hdim, 0);
        pack_queries(dout, do_row(a, head.s, b, h, i0), a.dout_row_stride, t.rows, a.hdim_v, 0);
        const Ranges ranges = ranges_of(head, i0, t.rows, part.j0, min64(part.j1, head.s.nk));
        for (i64 n = 0; n < ranges.count; ++n) weigh_keys(t, ranges.from[n], ranges.to[n], 0, t.rows, keys, sink);
        if (FAULT_DBIAS_ROWS_LOST) break;
      }
    }
  T* shared = dbias_row(a, part.b0, part.h0, 0);
  if (!a.dbias_row_stride)
    for (i64 j = part.j0; j < part.j1; ++j) {
      vf sum = vset(0);
      for (int z = 0; z < NZ; ++z) sum += vload(sums + j * BQ + z * NL);
      from_float(shared + j, vsum(sum));
    }
  else
    for (i64 z = 0; z < NZ; ++z) {
      const i64 rows = clamp64(a.seqlen_q - part.i0 - z * NL, 0, NL);
      if (!rows) break;
      T* out = dbias_row(a, part.b0, part.h0, part.i0 + z * NL);
      vf unused = vset(0);
      for (i64 j = 0; j < a.seqlen_k; j += NL)
        transpose_out(out + j, a.dbias_row_stride, sums + j * BQ + z * NL, vset(1), rows, min64(NL, a.seqlen_k - j), unused);
    }
}
