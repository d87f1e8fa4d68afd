// Appending: new rows of K and V into the cache, rotated by their positions, and rotated queries for the launch that follows.
// An item is one row of K and V, or of Q, of a sequence, for all heads: they share its angles.
struct Angles {
  double cosine[MAX_HDIM / 2], sine[MAX_HDIM / 2];
};

static void set_angles(const FmhaCpuArgs& a, i64 position, Angles& out) {
  if (a.rotary_cos) {
    const i64 row = (position + FAULT_ROTARY_OFF_BY_ONE) * (a.rotary_dim / 2);
    for (i64 t = 0; t < a.rotary_dim / 2; ++t) out.cosine[t] = a.rotary_cos[row + t], out.sine[t] = a.rotary_sin[row + t];
    return;
  }
  const double step = __builtin_log2(a.rotary_base) * -2 / (double)max64(a.rotary_dim, 1);
  for (i64 t = 0; t < a.rotary_dim / 2; ++t) {
    const double angle = (double)(position + FAULT_ROTARY_OFF_BY_ONE) * __builtin_exp2(step * (double)t);
    out.cosine[t] = __builtin_cos(angle), out.sine[t] = __builtin_sin(angle);
  }
}

template <class E>
static void rotate_row(const FmhaCpuArgs& a, const Angles& by, E* out, const T* in) {
  const i64 pairs = a.rotary_dim / 2, apart = a.interleaved != FAULT_ROTARY_STYLE ? 1 : pairs, step = apart == 1 ? 2 : 1;
  for (i64 t = 0; t < pairs; ++t) {
    const double x = to_float(in[t * step]), y = to_float(in[t * step + apart]);
    from_float(out + t * step, (float)(x * by.cosine[t] - y * by.sine[t]));
    from_float(out + t * step + apart, (float)(x * by.sine[t] + y * by.cosine[t]));
  }
  if (sizeof(E) == sizeof(T))
    memcpy(out + a.rotary_dim, in + a.rotary_dim, (size_t)(a.hdim - a.rotary_dim) * sizeof(T));
  else
    for (i64 d = a.rotary_dim; d < a.hdim; ++d) from_float(out + d, to_float(in[d]));
}

#if BYTES
// The byte of a number: limited to the largest, rounded to nearest even. Meanings grow with the byte up to the last
// finite one, and equal neighbours' distances are exact in float.
static byte8 narrowed(const Meaning& by, float x) {
  const bool whole = by.value[0x80] == -128;  // int8 is two's complement, fp8 has a sign bit
  if (x != x) return {(uint8_t)(whole ? 0 : by.value[0x7f] == by.value[0x7f] ? 0x80 : 0x7f)};
  const float size = __builtin_fabsf(x);
  int low = 0, high = 0x7f;  // value[low] <= size
  while (!(by.value[high] - by.value[high] == 0)) --high;
  const int last = high;
  while (low < high) {
    const int mid = (low + high + 1) / 2;
    by.value[mid] <= size ? low = mid : high = mid - 1;
  }
  if (low < last) {
    const float half = (by.value[low] + by.value[low + 1]) * 0.5f;
    low += size > half || (size == half && low % 2);
  }
  return {(uint8_t)(x < 0 && low ? whole ? 256 - low : low | 0x80 : low)};
}
template <class E>
static void write_row(const Context& x, byte8* out, const E* in, i64 n, float factor) {
  for (i64 d = 0; d < n; ++d) out[d] = narrowed(x.keys, to_float(in[d]) / factor);
}

static void append_row(const Context& x, const Sequence& s, i64 b, i64 t, const Angles& by) {
  const FmhaCpuArgs& a = *x.a;
  const i64 key = s.nk - a.append + t - FAULT_APPEND_ROW;
  for (i64 hk = 0; hk < a.kv_heads; ++hk) {
    const T* k = (const T*)a.k_new + b * a.k_new_batch_stride + hk * a.k_new_head_stride + t * a.k_new_row_stride;
    float rotated[MAX_HDIM];
    rotate_row(a, by, rotated, k);
    write_row(x, (KT*)row_at(key_rows(a, s, b, hk), key), rotated, a.hdim, key_factor(a, a.k_scale, b, hk, key));
    if (!a.v_new) continue;
    const T* v = (const T*)a.v_new + b * a.v_new_batch_stride + hk * a.v_new_head_stride + t * a.v_new_row_stride;
    write_row(x, (KT*)row_at(value_rows(a, s, b, hk), key), v, a.hdim_v, key_factor(a, a.v_scale, b, hk, key));
  }
}
#else
static void append_row(const Context& x, const Sequence& s, i64 b, i64 t, const Angles& by) {
  const FmhaCpuArgs& a = *x.a;
  const i64 key = s.nk - a.append + t - FAULT_APPEND_ROW;
  for (i64 hk = 0; hk < a.kv_heads; ++hk) {
    const T* k = (const T*)a.k_new + b * a.k_new_batch_stride + hk * a.k_new_head_stride + t * a.k_new_row_stride;
    rotate_row(a, by, (T*)row_at(key_rows(a, s, b, hk), key), k);
    if (!a.v_new) continue;
    const T* v = (const T*)a.v_new + b * a.v_new_batch_stride + hk * a.v_new_head_stride + t * a.v_new_row_stride;
    memcpy((T*)row_at(value_rows(a, s, b, hk), key), v, (size_t)a.hdim_v * sizeof(T));
  }
}
#endif

static void rotate_query(const Context& x, const Sequence& s, i64 b, i64 i, const Angles& by) {
  const FmhaCpuArgs& a = *x.a;
  for (i64 h = 0; h < a.heads; ++h) {
    T* out = (T*)a.q_rotated + b * a.q_rotated_batch_stride + h * a.q_rotated_head_stride + (s.q0 + i) * a.q_rotated_row_stride;
    rotate_row(a, by, out, q_row(a, s, b, h, i));
  }
}
