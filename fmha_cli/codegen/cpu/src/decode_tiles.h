// How the tiles read rows of K and V, and what they ask for meanwhile. Which hint is fast depends on the processor, so the
// caller says; a second one costs several per cent where it does not help, so that the loop is there twice (FORM: with it). An
// address outside of every mapping is ignored by the processor. Tiles that widen bytes do more between two hints, and decide at
// each of them; their loop is there twice because bytes whose sign is a bit (FORM) are widened by two instructions less.
struct WideRows {
  const float* first;
  i64 stride;  // words for each key: a row of K, or half a pair of rows of V
};
struct Meaning;
struct Lines {
  const ROW* first;   // row 0, rows `stride` apart
  i64 stride;
  i64 near;         // elements ahead, into the first-level cache
  const ROW* far_at;  // into the second: what row 0 asks for, rows `far_stride` apart
  i64 far_stride;
  // Only where tiles widen bytes (DIRECT): what those mean, and the same keys as they were widened before, or null.
  const Meaning* by;
  WideRows wide;
  bool odd;  // a byte of a step is no number, which the tiles do not see themselves
};

INLINE Lines from_line(const Lines& l, i64 n) {
  const WideRows wide = {l.wide.first + n * l.wide.stride, l.wide.stride};
  return {l.first + n * l.stride, l.stride, l.near, l.far_at + n * l.far_stride, l.far_stride, l.by, wide, l.odd};
}

// Asks for the near line of p, and for the next far line: those in the order of memory, whatever order the tile reads in, because
// hardware that sees a run of lines follows it.
template <bool FORM>
INLINE void ask(const Lines& l, const ROW* p, const ROW*& next) {
  if (BYTES && !DIRECT) return;  // rows that were just widened
  __builtin_prefetch(p + l.near, 0, 3);
  if (DIRECT ? !l.far_stride : !FORM) return;
  __builtin_prefetch(next, 0, 2);
  next += 64 / (i64)sizeof(ROW);
}

INLINE bool hints_far(const FmhaCpuArgs& a) { return (a.block_table ? a.prefetch_pages : a.prefetch_far) > 0; }

// Rows of one head: the caller says how many bytes ahead, at least; whole rows.
INLINE i64 rows_ahead(i64 bytes, i64 columns) { return bytes > 0 ? bytes / (columns * (i64)sizeof(KT)) + 1 : 0; }
enum {
  STEP = 16,        // keys that go through all heads of an item before the next ones
  STEPS_AHEAD = 1,  // into the second-level cache
  WIDENED_ROWS = DIRECT ? 8 : MAX_ROWS + 1,  // rows of queries from which tiles no longer widen bytes themselves
};

#if !BYTES || DIRECT
INLINE Lines lines_of(const FmhaCpuArgs& a, const KeyRows& from, i64 j, i64 columns) {
  const i64 near = rows_ahead(a.prefetch_near < 0 ? PREFETCH : a.prefetch_near, columns);
  const i64 far = rows_ahead(a.prefetch_far, columns);
  const KT* at = from.first + j * from.stride;
  return {at, from.stride, near * from.stride, at + far * from.stride, from.stride};
}

// A step of keys from j on, on one page or linear, for head 0; behind row `last` nothing is asked for but that row.
INLINE Lines step_lines(const KeyRows& from, i64 j, i64 last) {
  const KT* at = row_at(from, j);
  const i64 next = row_at(from, min64(j + STEP, last)) - at;
  return {at, from.stride, next, row_at(from, min64(j + STEPS_AHEAD * STEP, last)), from.stride};
}

// A step whose keys are on several pages: rows of all heads are copied, `columns` of each of `heads`.
static Lines gather(const KeyRows& from, i64 j, i64 n, i64 last, i64 heads, i64 head_stride, i64 columns, KT* copy) {
  const i64 room = read_columns(columns), width = heads * room, line = 64 / sizeof(KT);
  const i64 run = head_stride == columns && columns == room ? width : columns, step = max64(run, room);
  for (i64 t = 0; t < n; ++t) {
    const KT *row = row_at(from, j + t), *later = row_at(from, min64(j + t + STEPS_AHEAD * STEP, last));
    for (KT* to = copy + t * width; to < copy + (t + 1) * width; to += step, row += head_stride, later += head_stride) {
      for (i64 c = 0; c < run; c += line) __builtin_prefetch(later + c, 0, 2);
      memcpy(to, row, (size_t)run * sizeof(KT));
      if (run < step) memset((void*)(to + run), 0, (size_t)(step - run) * sizeof(KT));
    }
  }
  return {copy, width, 0, copy, 0};
}

// The same for head h of several whose rows are neighbours. It asks for the next head's rows, the last one for the first one's
// of the next step. A later step is asked for in the order of memory, which hardware follows: each head for its share.
INLINE Lines for_head(const Context& x, Lines l, i64 h, i64 heads, i64 head_stride, i64 columns) {
  l.first += h * head_stride;
  if (heads > 1) {
    l.near = h + 1 < heads ? head_stride : l.near - h * head_stride;
    l.far_at += h * STEP * columns, l.far_stride = columns;
  }
#if DIRECT
  l.by = &x.keys;
  if (!hints_far(*x.a)) l.far_stride = 0;
#endif
  return l;
}
#endif

// Columns of a query are stored in steps, zeros behind the last one. Weights of neighbouring keys are pairs where products are.
#if DIRECT && PAIRS
// Pairs in the order in which bytes are unpacked: the even eights of 64 columns, then the odd ones.
enum { QUERY_STEP = CODES, QUERY_VECTORS = 2 };
typedef bf16 WEIGHT;
INLINE void store_query(float* q, const QT* p, i64 n) {
  const vf a = vload_pairs(p, n), b = vload_pairs(p + 2 * NL, max64(n - 2 * NL, 0));
  vstore(q, _mm512_shuffle_f32x4(a, b, 0x88)), vstore(q + NL, _mm512_shuffle_f32x4(a, b, 0xdd));
}
#elif PAIRS
// Pairs of neighbouring columns, as they lie in memory.
enum { QUERY_STEP = 2 * NL, QUERY_VECTORS = 1 };
typedef bf16 WEIGHT;
INLINE void store_query(float* q, const QT* p, i64 n) { vstore(q, vload_pairs(p, n)); }
INLINE vf load_keys(const ROW* p) { return vload((const float*)p); }
#else
enum { QUERY_STEP = NL, QUERY_VECTORS = 1 };
typedef float WEIGHT;
INLINE void store_query(float* q, const QT* p, i64 n) { vstore(q, n < NL ? vload_n(p, n) : vload(p)); }
#if !BY_CODES
INLINE vf load_keys(const ROW* p) { return vload(p); }
#endif
#endif

#if BY_CODES
// Loops are there once, and tiles twice: the meaning of a step's bytes says which.
INLINE bool form_of(const Context&) { return false; }
#define BY_FORM(function, rows, ...) ((rows).by->whole ? function<true>(__VA_ARGS__) : function<false>(__VA_ARGS__))
#else
#if DIRECT
INLINE bool form_of(const Context& x) { return x.keys.sign_bit; }
#else
INLINE bool form_of(const Context& x) { return hints_far(*x.a); }
#endif
#define BY_FORM(function, rows, ...) function<FORM>(__VA_ARGS__)
#endif
#if !DIRECT
INLINE WideRows widen_keys(const Lines&, i64, i64, float*) { return {}; }
INLINE WideRows widen_values(const Lines&, i64, i64, float*) { return {}; }
#endif
#if !BY_CODES
INLINE bool holds_no_number(const Lines&, i64, i64) { return false; }
#endif
#if !DIRECT || BY_CODES
enum { LEFT = BY_CODES ? CODES : NL };  // columns of a tile at the end of rows
INLINE void straighten(float*, i64) {}
#endif
