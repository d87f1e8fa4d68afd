// What a launch works on: the arguments with the derived numbers that every row needs.
const float LOG2E = 1.4426950408889634f, LN2 = 0.6931471805599453f;
const float NEG_INF = -__builtin_inff();

struct Context {
  const FmhaCpuArgs* a;
  float scale;       // as used, of either sign
  float unit;        // of the scores that weights are made of: 1 if they are finished, or that of raw ones
  uint32_t q_flip;   // sign bit of the scale, moved into Q, so that the largest q.k is the largest score
  bool featured;     // scores need more than the scale
  bool has_left, has_right;
  i64 left, right;
#if BYTES
  Meaning keys, queries;  // of the bytes of K and V, and of Q
#endif
};

// Lengths and first elements of one sequence.
struct Sequence {
  i64 q0, nq, k0, nk;
  i64 item;   // of k and v
  i64 keys;   // nk, as far as the mask is concerned
  i64 delta;  // the diagonal: row i is at key i + delta
};

// Visible keys of a range of rows: [0, head) and [lo, hi).
struct Span {
  i64 head, lo, hi;
};

INLINE Sequence sequence_of(const Context& x, i64 b) {
  const FmhaCpuArgs& a = *x.a;
  Sequence s;
  s.q0 = a.q_start ? a.q_start[b] : 0;
  s.nq = a.q_len ? a.q_len[b] : a.seqlen_q;
  s.k0 = a.k_start ? a.k_start[b] : 0;
  s.nk = a.k_len ? a.k_len[b] : a.seqlen_k;
  s.item = a.kv_item ? a.kv_item[b] : b;
  s.keys = s.nk - FAULT_LAST_KEY_DROPPED;
  s.delta = a.top_left ? 0 : s.nk - s.nq;
  return s;
}

INLINE i64 kv_head(const FmhaCpuArgs& a, i64 h) {
  return FAULT_GQA_HEADS_SWAPPED ? h % a.kv_heads : h / (a.heads / a.kv_heads);
}

INLINE Span span_of(const Context& x, const Sequence& s, i64 first_row, i64 last_row) {
  Span v;
  v.hi = x.has_right ? clamp64(last_row + s.delta + x.right + 1, 0, s.keys) : max64(s.keys, 0);
  v.lo = x.has_left ? clamp64(first_row + s.delta - x.left, 0, v.hi) : 0;
  v.head = x.has_left ? min64(x.a->sink, v.lo) : 0;
  return v;
}

// Whether raw scores may be weighed without being scaled. A factor of 0 would turn a row maximum of -inf into NaN.
INLINE bool is_unit(float factor) {
  const float size = __builtin_fabsf(factor);
  return size > 0 && size < 1e38f;
}
// Whether a head's learned sink can be told in this unit.
INLINE bool holds_sink(const FmhaCpuArgs& a, i64 h, float unit) {
  return !a.sink_logits || __builtin_isinf(a.sink_logits[h]) || !(__builtin_fabsf(a.sink_logits[h]) / unit > 1e38f);
}

NOINLINE Context make_context(const FmhaCpuArgs* a) {
  Context x;
  x.a = a;
  x.scale = a->scale * (FAULT_SCALE_WRONG ? 1.0625f : 1.0f);
  x.featured = a->bias || a->alibi_slopes || a->softcap > 0 || a->dropout_threshold || !is_unit(x.scale);
  x.q_flip = x.featured || x.scale > 0 ? 0 : 0x80000000u;
  x.unit = x.featured ? 1 : __builtin_fabsf(x.scale);
  const i64 far = (i64)1 << 40;  // beyond every length, small enough to add
  x.has_left = a->has_left;
  x.has_right = a->has_right;
  x.left = clamp64(a->left, -far, far);
  x.right = clamp64(a->right, -far, far) + FAULT_MASK_OFF_BY_ONE - FAULT_LAST_KEY_DROPPED;
  if (FAULT_WINDOW_SIDE) {
    Context y = x;
    x.has_left = y.has_right, x.has_right = y.has_left, x.left = y.right, x.right = y.left;
  }
#if BYTES
  read_table(x.keys, a->k_table);
  read_table(x.queries, a->q_table);
#endif
  return x;
}

// What turns a raw score q.k into a finished one. A copy of its own, because every store of a float might change
// the arguments and would have them read again.
struct Finish {
  float before;  // factor of the raw score: scale, or scale / cap
  float cap;
  bool bias, alibi;
};

INLINE Finish finish_of(const Context& x) {
  const float cap = x.a->softcap;
  return {cap > 0 ? x.scale / cap : x.scale, cap, x.a->bias != nullptr, x.a->alibi_slopes != nullptr};
}

// distance = i + delta - j; down = -slope. V is a vector or a float.
template <bool CAP, class V>
INLINE V finish_score(const Finish& f, V raw, V bias, V distance, V down) {
  V s = raw * vset_like(raw, f.before);
  if (CAP) s = vtanh(s) * vset_like(raw, f.cap);
  if (f.bias) s = s + bias;
  if (f.alibi) s = vfma(down, vabs(distance), s);
  return s;
}

// The factor of the distance: minus the slope of a head.
INLINE float down_of(const FmhaCpuArgs& a, i64 b, i64 h) {
  const float slope = a.alibi_slopes ? a.alibi_slopes[b * a.alibi_batch_stride + h] : 0;
  return FAULT_ALIBI_SIGN ? slope : -slope;
}

// A row's maximum is kept in the unit of its scores, and is subtracted from them before anything is scaled: the largest weight is then 1
// whatever the scores are. A maximum that was scaled and rounded would be off by its own rounding, which is more than 1 from 2^24 on.

// Score and weight with which a learned sink (and a planted phantom key) starts a row.
INLINE void start_row(const Context& x, i64 h, float unit, float& top, float& sum) {
  float logit = x.a->sink_logits ? x.a->sink_logits[h] : NEG_INF;
  top = logit != logit ? NEG_INF : logit / unit;
  sum = logit != logit ? logit : logit == NEG_INF ? 0.0f : 1.0f;
  if (FAULT_MASK_OFF_BY_ONE && !x.has_right) {  // one more key, all zeros
    sum = top > 0 ? sum + __builtin_expf(-top * unit) : sum * __builtin_expf(top * unit) + 1.0f;
    top = top > 0 ? top : 0;
  }
}

INLINE float lse_of(float top, float unit, float sum) {
  float lse = sum == 0 ? NEG_INF : top * unit + __builtin_logf(sum);
  return FAULT_LSE_LOG2 ? lse * LOG2E : lse;
}

INLINE bool kept(uint32_t word, uint32_t threshold) { return (word >= threshold) != FAULT_DROPOUT_INVERTED; }

INLINE T* o_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 h, i64 i) {
  return (T*)a.o + b * a.o_batch_stride + h * a.o_head_stride + (s.q0 + i) * a.o_row_stride;
}
INLINE const QT* q_row(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 h, i64 i) {
  return (const QT*)a.q + b * a.q_batch_stride + h * a.q_head_stride + (s.q0 + i) * a.q_row_stride;
}
INLINE const KT* k_rows(const FmhaCpuArgs& a, const Sequence& s, i64 hk) {
  return (const KT*)a.k + s.item * a.k_batch_stride + hk * a.k_head_stride + s.k0 * a.k_row_stride;
}
INLINE const KT* v_base(const FmhaCpuArgs& a) {
  return (const KT*)a.v + (FAULT_V_COLUMNS && a.v == a.k ? a.hdim - a.hdim_v : 0);
}
INLINE const KT* v_rows(const FmhaCpuArgs& a, const Sequence& s, i64 hk) {
  return v_base(a) + s.item * a.v_batch_stride + hk * a.v_head_stride + s.k0 * a.v_row_stride;
}
INLINE const BT* bias_row(const FmhaCpuArgs& a, i64 b, i64 h, i64 i) {
  return (const BT*)a.bias + b * a.bias_batch_stride + h * a.bias_head_stride + i * a.bias_row_stride;
}
INLINE float* lse_at(const FmhaCpuArgs& a, const Sequence& s, i64 b, i64 h, i64 i) {
  return a.lse + b * a.lse_batch_stride + h * a.lse_head_stride + (s.q0 + i) * a.lse_row_stride;
}
