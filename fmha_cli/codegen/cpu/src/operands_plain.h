// Operands of the tile loop in fp32: weights are single rows, values are rows of V in fp32.
typedef float VALUE;
enum { V_STEP = 1 };  // keys for each step of the value product

INLINE void drop_weight(float* p, i64 j, int z, vf keep) {
  float* at = p + j * BQ + z * NL;
  vstore(at, (vf)((vu)vload(at) & (vu)keep));
}
INLINE i64 query_columns(i64 hdim) { return hdim; }
template <class E>
INLINE vf load_columns(const E* p, i64 n) { return n >= NL ? vload(p) : vload_n(p, n); }

#if BYTES
static void copy_row(const Context& x, float* out, const KT* in, i64 columns) { widen(widener_of(x.keys), out, in, columns); }
#else
static void copy_row(const Context&, float* out, const KT* in, i64 columns) {
  for (i64 d = 0; d < columns; d += NL) {
    const i64 n = min64(NL, columns - d);
    n == NL ? vstore(out + d, vload(in + d)) : vstore_n(out + d, vload_n(in + d, n), n);
  }
}
#endif
INLINE i64 whole_columns(i64 columns) { return columns; }
INLINE i64 value_copy_stride(i64 columns) { return columns; }
INLINE i64 key_copy_stride(i64 columns) { return columns; }
static void copy_keys(const Context& x, KEY* out, const KeyRows& in, i64 first, i64 rows, i64 columns) {
  for (i64 r = 0; r < rows; ++r, out += columns) copy_row(x, out, row_at(in, first + r), columns);
}
static void copy_values(const Context& x, VALUE* out, const KeyRows& in, i64 first, i64 rows, i64, i64 columns) {
  copy_keys(x, out, in, first, rows, columns);
}
