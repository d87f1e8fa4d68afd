// Asks for a cache line; an address outside of every mapping is ignored by the processor.
#define PREFETCH_AT(p) __builtin_prefetch((p), 0, 3)
// Elements ahead: at least PREFETCH bytes, whole rows.
INLINE i64 ahead_of(i64 stride, i64 columns) { return PREFETCH > 0 ? (PREFETCH / (columns * (i64)sizeof(T)) + 1) * stride : 0; }

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
