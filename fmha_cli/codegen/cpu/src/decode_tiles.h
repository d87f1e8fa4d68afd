// How far ahead K and V are asked for, in elements: at least so many bytes, whole rows. Which hint is fast depends on the
// processor: the caller says. An address outside of every mapping is ignored by the processor.
struct Ahead {
  i64 near, far;  // into the first-level cache, and into the second; 0 = not
};

INLINE i64 rows_ahead(i64 bytes, i64 stride, i64 columns) { return bytes > 0 ? (bytes / (columns * (i64)sizeof(T)) + 1) * stride : 0; }
INLINE Ahead ahead_of(const FmhaCpuArgs& a, i64 stride, i64 columns) {
  const i64 near = a.prefetch_near < 0 ? PREFETCH : a.prefetch_near;
  return {rows_ahead(near, stride, columns), rows_ahead(a.prefetch_far, stride, columns)};
}

// Two loops are compiled, because a second hint costs several per cent where it does not help.
template <bool FAR>
INLINE void ask(const T* p, Ahead ahead) {
  __builtin_prefetch(p + ahead.near, 0, 3);
  if (FAR) __builtin_prefetch(p + ahead.far, 0, 2);
}

#if PAIRS
// Queries as they lie in memory, pairs of neighbouring columns, zeros behind the last one.
INLINE vf load_query(const T* p, i64 n) { return vload_pairs(p, n); }
INLINE vf load_keys(const T* p) { return vload((const float*)p); }
enum { QUERY_STEP = 2 * NL };
#else
INLINE vf load_query(const T* p, i64 n) { return n < NL ? vload_n(p, n) : vload(p); }
INLINE vf load_keys(const T* p) { return vload(p); }
enum { QUERY_STEP = NL };
#endif
