// Q of one tile, transposed: [column][query], rows behind the last one zero; flip moves the scale's sign in.
template <class E>
static void pack_queries(float* out, const E* q, i64 q_stride, i64 rows, i64 hdim, uint32_t flip) {
  const i64 columns = query_columns(hdim);
  for (i64 c = 0; c < columns; c += NL)
    transpose_in<true>(out + c * BQ, q + c * COLUMN_ELEMENTS, q_stride, rows, hdim - c * COLUMN_ELEMENTS);
  if (flip)
    for (i64 e = 0; e < columns * BQ; e += NL)
      vstore(out + e, vxor(vload(out + e), COLUMN_ELEMENTS == 2 ? flip | flip >> 16 : flip));
}
