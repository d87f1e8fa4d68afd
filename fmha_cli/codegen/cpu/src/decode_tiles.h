// How the tiles read rows of K and V. Rows of a linear tensor are asked for some bytes ahead, at the processor's pace: which
// hint is fast depends on it, so the caller says. A second hint costs several per cent where it does not help. Rows on pages
// come from a list that reaches further than the block, and are asked for by it. An address outside of every mapping is
// ignored by the processor.
enum Read { NEAR, FAR, PAGES, STAGED };  // STAGED: rows that were just widened, asked for already

template <class E>
struct LinesOf {
  const E* first;   // NEAR, FAR, STAGED: row 0, rows `stride` apart
  i64 stride;
  const E** rows;   // PAGES: every row
  i64 near, far;    // elements ahead (PAGES: rows) into the first-level cache, and into the second; 0 = not
};

typedef LinesOf<KT> Source;  // in memory
typedef LinesOf<ROW> Lines;  // as the tiles read them

template <Read R, class E>
INLINE const E* line(const LinesOf<E>& l, i64 n) { return R == PAGES ? l.rows[n] : l.first + n * l.stride; }
template <Read R, class E>
INLINE LinesOf<E> from_line(const LinesOf<E>& l, i64 n) { return R == PAGES ? LinesOf<E>{nullptr, 0, l.rows + n, l.near, 0} : LinesOf<E>{l.first + n * l.stride, l.stride, nullptr, l.near, l.far}; }

// Asks for what follows column c of row n, which is at p.
template <Read R, class E>
INLINE void ask(const LinesOf<E>& l, i64 n, const E* p, i64 c) {
  if (R == STAGED) return;
  __builtin_prefetch(R == PAGES ? l.rows[n + l.near] + c : p + l.near, 0, 3);
  if (R == FAR) __builtin_prefetch(p + l.far, 0, 2);
}

enum { MOST_AHEAD = 64 };  // rows of the list behind the block
INLINE i64 rows_ahead(i64 bytes, i64 columns) { return bytes > 0 ? bytes / (columns * (i64)sizeof(KT)) + 1 : 0; }
INLINE i64 near_of(const FmhaCpuArgs& a) { return a.prefetch_near < 0 ? PREFETCH : a.prefetch_near; }

INLINE Source lines_of(const FmhaCpuArgs& a, const KeyRows& rows, i64 columns) {
  const i64 near = rows_ahead(near_of(a), columns), far = rows_ahead(a.prefetch_far, columns);
  if (rows.pages) return {nullptr, 0, nullptr, min64(near, MOST_AHEAD), 0};
  return {rows.first, rows.stride, nullptr, near * rows.stride, far * rows.stride};
}

// Rows j0 .. j0 + n - 1; behind row `last` that one again.
static void list_rows(const KeyRows& from, i64 j0, i64 n, i64 last, const KT** rows) {
  i64 slot = j0 % from.page, number = j0 / from.page;
  const KT* at = row_at(from, j0);
  for (i64 t = 0; t < n; ++t) {
    rows[t] = at;
    if (j0 + t >= last) continue;
    at = ++slot < from.page ? at + from.stride : (slot = 0, page_at(from, ++number));
  }
}

#if PAIRS
// Queries as they lie in memory, pairs of neighbouring columns, zeros behind the last one.
INLINE vf load_query(const QT* p, i64 n) { return vload_pairs(p, n); }
INLINE vf load_keys(const ROW* p) { return vload((const float*)p); }
enum { QUERY_STEP = 2 * NL };
#else
INLINE vf load_query(const QT* p, i64 n) { return n < NL ? vload_n(p, n) : vload(p); }
INLINE vf load_keys(const ROW* p) { return vload(p); }
enum { QUERY_STEP = NL };
#endif
