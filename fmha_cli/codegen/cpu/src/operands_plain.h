// Operands of the tile loop in fp32: weights are single rows, values are converted rows of V.
typedef float VALUE;
enum { V_STEP = 1 };  // keys for each step of the value product

INLINE void drop_weight(float* p, i64 j, int z, vf keep) {
  float* at = p + j * BQ + z * NL;
  vstore(at, (vf)((vu)vload(at) & (vu)keep));
}
INLINE i64 query_columns(i64 hdim) { return hdim; }
INLINE vf load_columns(const T* p, i64 n) { return n >= NL ? vload(p) : vload_n(p, n); }

static void convert_rows(float* out, const T* in, i64 in_stride, i64 rows, i64 columns) {
  for (i64 r = 0; r < rows; ++r, in += in_stride, out += columns)
    for (i64 d = 0; d < columns; d += NL) {
      const i64 n = min64(NL, columns - d);
      n == NL ? vstore(out + d, vload(in + d)) : vstore_n(out + d, vload_n(in + d, n), n);
    }
}
static void prepare_values(VALUE* out, const T* in, i64 in_stride, i64 rows, i64, i64 columns) {
  convert_rows(out, in, in_stride, rows, columns);
}
