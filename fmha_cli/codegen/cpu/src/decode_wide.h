// Tiles for many rows read bytes, or the keys of a step that were widened before.
template <bool FORM>
INLINE vf dot_many(const float* query, i64 q_stride, const Lines& k, i64 last, i64 columns) {
  return k.wide.stride ? DOT_WIDENED(query, q_stride, k.wide, last, columns) : DOT_BYTES<FORM>(query, q_stride, k, last, columns);
}
template <bool FORM>
static void mix_many(float* o, i64 o_stride, const float* p, i64 p_stride, const Lines& v, i64 c, i64 keys, const float* shrink,
                     i64 n) {
  if (v.wide.stride) return MIX_WIDENED(o, o_stride, p, p_stride, v.wide, c, keys, shrink, n);
  MIX_BYTES<FORM>(o, o_stride, p, p_stride, v, c, keys, shrink, n);
}
