template <bool COLUMNS, class E>
INLINE vf load_some(const E* p, i64 n, i64 count) {
  if (COLUMNS) return load_columns(p, n);
  return count == NL ? vload(p) : vload_n(p, count);
}

// Up to NL columns of up to BQ rows of a tensor, to [column][query]; n elements are left in each row.
template <bool COLUMNS, class E>
static void transpose_in(float* out, const E* in, i64 stride, i64 rows, i64 n) {
  const i64 count = min64(NL, COLUMNS ? query_columns(n) : n), end = min64(NZ, ceil_div(rows, FILLED * NL) * FILLED);
  float square[NL * NL];
  for (i64 z = 0; z < end; ++z, out += NL, in += NL * stride, rows -= NL) {
    if (sizeof(E) == sizeof(float) && rows >= NL && count == NL) {
      transpose_square(out, BQ, (const float*)in, stride);
      continue;
    }
    ROLLED for (i64 r = 0; r < NL; ++r)
      vstore(square + r * NL, r < rows ? load_some<COLUMNS>(in + r * stride, n, count) : vset(0));
    if (count == NL) {
      transpose_square(out, BQ, square, NL);
      continue;
    }
    transpose_square(square, NL, square, NL);
    ROLLED for (i64 c = 0; c < count; ++c) vstore(out + c * BQ, vload(square + c * NL));
  }
}

// Up to NL columns of O for up to NL rows; bad becomes NaN in lanes that are not finite.
NOINLINE void transpose_out(T* out, i64 stride, const float* in, vf factor, i64 rows, i64 columns, vf& bad) {
  if (rows == NL && columns == NL) return scale_square(out, stride, in, factor, bad);
  float square[NL * NL];
  ROLLED for (i64 c = 0; c < NL; ++c) {
    const vf x = c < columns ? vload(in + c * BQ) * factor : vset(0);
    bad = vfma(x, vset(0), bad);
    vstore(square + c * NL, x);
  }
  transpose_square(square, NL, square, NL);
  ROLLED for (i64 r = 0; r < rows; ++r) vstore_n(out + r * stride, vload(square + r * NL), columns);
}
