// What the backward pass adds to a launch: rows of dO and of the gradients, and which keys a tile sees.
enum { STRIP = NS * NL };  // queries of one product

INLINE i64 padded(i64 d) { return ceil_div(d, NL) * NL; }
INLINE i64 whole_products(i64 n) { return ceil_div(n, PRODUCT_ROWS) * PRODUCT_ROWS; }
INLINE i64 whole_tiles(i64 n) { return ceil_div(n, BQ) * BQ; }

// Query head number n of a key/value head.
INLINE i64 head_of(const FmhaCpuArgs& a, i64 hk, i64 n) {
  return FAULT_GQA_HEADS_SWAPPED ? hk + n * a.kv_heads : hk * (a.heads / a.kv_heads) + n;
}

INLINE const T* do_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 h, i64 i) {
  return (const T*)a.dout + b * a.dout_batch_stride + h * a.dout_head_stride + (s.q0 + i) * a.dout_row_stride;
}
INLINE T* dq_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 h, i64 i) {
  return (T*)a.dq + b * a.dq_batch_stride + h * a.dq_head_stride + (s.q0 + i) * a.dq_row_stride;
}
INLINE T* dk_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 hk, i64 j) {
  const i64 at = FAULT_DK_WRONG_HEAD ? (hk + 1) % a.kv_heads : hk;
  return (T*)a.dk + b * a.dk_batch_stride + at * a.dk_head_stride + (s.k0 + j) * a.dk_row_stride;
}
INLINE T* dv_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 hk, i64 j) {
  return (T*)a.dv + b * a.dv_batch_stride + hk * a.dv_head_stride + (s.k0 + j) * a.dv_row_stride;
}
INLINE T* dbias_row(const FmhaCpuArgs& a, i64 b, i64 h, i64 i) {
  return (T*)a.dbias + b * a.dbias_batch_stride + h * a.dbias_head_stride + i * a.dbias_row_stride;
}
INLINE uint32_t dropout_offset(const FmhaCpuArgs& a) { return a.offset + FAULT_DROPOUT_OFFSET; }

// One query head of a sequence, with three numbers for each of its rows. A weight is exp2((score - top) * exponent + base): top is 0 and
// base the LSE, unless the LSE is so large that its rounding would show in the weights. Then they are the row's largest score, in the
// unit of its scores, and the sum of its weights. delta is the sum of dO * O. Rows behind the last one have weights of 0.
struct Head {
  const Context* x;
  Sequence s;
  i64 b, h;
  float *top, *base, *delta;
};

// Another head of the same sequence.
INLINE Head other_head(const Head& head, i64 h) {
  const i64 step = (h - head.h) * whole_tiles(head.s.nq);
  return {head.x, head.s, head.b, h, head.top + step, head.base + step, head.delta + step};
}

// Up to two ranges of keys; a range starts at a multiple of PRODUCT_ROWS.
struct Ranges {
  i64 count, from[2], to[2];
};

// The keys of [from, to) that some row of [i0, i0 + rows) sees. ``from`` is a multiple of PRODUCT_ROWS.
static Ranges ranges_of(const Head& head, i64 i0, i64 rows, i64 from, i64 to) {
  Ranges r = {0, {0, 0}, {0, 0}};
  const Span v = span_of(*head.x, head.s, i0, i0 + rows - 1);
  const i64 sinks = min64(to, v.head), lo = max64(from, v.lo / PRODUCT_ROWS * PRODUCT_ROWS), hi = min64(to, v.hi);
  if (from < sinks) r.from[r.count] = from, r.to[r.count++] = sinks;
  if (lo >= hi) return r;
  if (r.count && lo <= whole_products(sinks))
    r.to[0] = hi;
  else
    r.from[r.count] = lo, r.to[r.count++] = hi;
  return r;
}

// Sum of the products of two rows.
static float row_dot(const T* x, const T* y, i64 n) {
  vf sum = vset(0);
  for (i64 c = 0; c < n; c += NL) {
    const i64 m = min64(NL, n - c);
    sum = m == NL ? vfma(vload(x + c), vload(y + c), sum) : vfma(vload_n(x + c, m), vload_n(y + c, m), sum);
  }
  return vsum(sum);
}
