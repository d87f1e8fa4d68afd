// Appending: new rows of K and V into the cache, rotated by their positions, and rotated queries for the launch that follows.
// An item is one row of K and V, or of Q, of a sequence, for all heads: they share its angles.
struct Angles {
  double cosine[MAX_HDIM / 2], sine[MAX_HDIM / 2];
};

static void set_angles(const FmhaCpuArgs& a, i64 position, Angles& out) {
  const double step = __builtin_log2(a.rotary_base) * -2 / (double)max64(a.rotary_dim, 1);
  for (i64 t = 0; t < a.rotary_dim / 2; ++t) {
    const double angle = (double)(position + FAULT_ROTARY_OFF_BY_ONE) * __builtin_exp2(step * (double)t);
    out.cosine[t] = __builtin_cos(angle), out.sine[t] = __builtin_sin(angle);
  }
}

static void rotate_row(const FmhaCpuArgs& a, const Angles& by, T* out, const T* in) {
  const i64 pairs = a.rotary_dim / 2, apart = a.interleaved != FAULT_ROTARY_STYLE ? 1 : pairs, step = apart == 1 ? 2 : 1;
  for (i64 t = 0; t < pairs; ++t) {
    const double x = to_float(in[t * step]), y = to_float(in[t * step + apart]);
    from_float(out + t * step, (float)(x * by.cosine[t] - y * by.sine[t]));
    from_float(out + t * step + apart, (float)(x * by.sine[t] + y * by.cosine[t]));
  }
  memcpy(out + a.rotary_dim, in + a.rotary_dim, (size_t)(a.hdim - a.rotary_dim) * sizeof(T));
}

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

static void rotate_query(const Context& x, const Sequence& s, i64 b, i64 i, const Angles& by) {
  const FmhaCpuArgs& a = *x.a;
  for (i64 h = 0; h < a.heads; ++h) {
    T* out = (T*)a.q_rotated + b * a.q_rotated_batch_stride + h * a.q_rotated_head_stride + (s.q0 + i) * a.q_rotated_row_stride;
    rotate_row(a, by, out, q_row(a, s, b, h, i));
  }
}
