// Rows of K as tiles of their columns, transposed, with zeros behind the last column and in rows [rows, all).
static void copy_key_steps(float* out, const T* in, i64 stride, i64 rows, i64 all, i64 d) {
  alignas(64) float square[NL * NL];
  for (i64 r = 0; r < all; r += TILE_KEYS, in += TILE_KEYS * stride)
    for (i64 c = 0; c < d; c += NL, out += TILE_ROWS * NL) {
      const i64 n = min64(NL, d - c);
      for (i64 pair = 0; pair < NL; ++pair) {
        const T* at = in + 2 * pair * stride + c;
        const i64 row = r + 2 * pair;
        const vf a = row < rows ? vload_n(at, n) : vset(0), b = row + 1 < rows ? vload_n(at + stride, n) : vset(0);
        vstore(square + pair * NL, FAULT_TILE_PAIRS ? vzip(b, a) : vzip(a, b));
      }
      transpose_square(out, NL, square, NL);
    }
}
