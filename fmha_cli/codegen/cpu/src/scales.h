// Factors of Q, K and V. A factor for a whole head is part of the exponent or of the last factor of O; one that changes
// from key to key is applied to scores and weights.
enum { SCALE_ROWS = 128 };

struct Scaled {
  float unit;      // of the scores that weights are made of
  float exponent;  // the same in exponents of 2
  uint32_t flip;   // sign bit, moved into Q
  bool featured;   // those scores are finished, and not raw
  float values;    // factor of O
  Finish finish;
};

INLINE float query_value(const Context& x, byte8 q) { return x.queries.value[q.bits]; }
template <class E>
INLINE float query_value(const Context&, E q) { return to_float(q); }
INLINE float key_value(const Context& x, byte8 k) { return x.keys.value[k.bits]; }

INLINE bool by_key(const FmhaCpuArgs& a) { return a.scale_pages || a.kv_scale_block_stride; }
INLINE float key_factor(const FmhaCpuArgs& a, const float* scale, i64 b, i64 hk, i64 j) {
  if (!scale) return 1;
  i64 n = j / (a.scale_pages ? a.page : SCALE_ROWS);
  if (FAULT_SCALE_BLOCK && n) --n;
  const i64 at = a.scale_pages ? (i64)a.block_table[b * a.block_table_stride + n] : b, block = a.scale_pages ? 0 : n;
  return scale[at * a.kv_scale_batch_stride + hk * a.kv_scale_head_stride + block * a.kv_scale_block_stride];
}
INLINE float query_factor(const FmhaCpuArgs& a, i64 b, i64 h, i64 i) {
  if (!a.q_scale) return 1;
  const i64 head = h / a.q_scale_ratio, block = i / SCALE_ROWS;
  return a.q_scale[b * a.q_scale_batch_stride + head * a.q_scale_head_stride + block * a.q_scale_block_stride];
}

// Row i of head h, and every other row of its SCALE_ROWS.
static Scaled scaled_of(const Context& x, i64 b, i64 h, i64 i) {
  const FmhaCpuArgs& a = *x.a;
  const i64 hk = kv_head(a, h);
  const float factor = query_factor(a, b, h, i) * (by_key(a) ? 1 : key_factor(a, a.k_scale, b, hk, 0));
  const float whole = x.scale * factor;
  Scaled s;
  s.featured = x.featured || by_key(a) || !is_unit(whole) || !holds_sink(a, h, __builtin_fabsf(whole));
  s.unit = s.featured ? 1 : __builtin_fabsf(whole);
  s.exponent = s.unit * LOG2E;
  s.flip = s.featured || whole > 0 ? 0 : 0x80000000u;
  s.values = by_key(a) ? 1 : key_factor(a, a.v_scale, b, hk, 0);
  s.finish = finish_of(x);
  s.finish.before *= factor;
  return s;
}
