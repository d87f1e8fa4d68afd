// Steps of two rows, as pairs of bf16: operands in pairs and in matrix tiles.
INLINE vf load_columns(const T* p, i64 n) { return vload_pairs(p, n); }

// Rows r and r + 1 of a tensor as one row of pairs, with zeros behind the last column and in rows [rows, all).
static void copy_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  for (i64 r = 0; r < all; r += 2, in += 2 * stride, out += padded(d))
    for (i64 c = 0; c < d; c += NL) {
      const i64 n = min64(NL, d - c);
      const vf a = r < rows ? vload_n(in + c, n) : vset(0), b = r + 1 < rows ? vload_n(in + stride + c, n) : vset(0);
      vstore(out + c, vzip(a, b));
    }
}
