// Decode: few query rows for each key/value head (a group), so K and V are read once, row by row, at the speed
// of memory, for all of them. Lanes are columns. An item is a group and a range of its blocks of BC keys.
struct Group {
  const Context* x;
  Sequence s;
  i64 b, hk, rows;
  i64 head, lo, hi;  // keys [0, head) and [lo, hi): what any row sees, lo and head at block borders
};

// What an item leaves: for each row the top (a score), the sum and O. The host lays parts out too: see part_floats
// of the ABI.
struct Part {
  float *top, *sum;
  float* o;  // [row][o_stride]
};

enum { LINE = 16 };
#define BY_CODES (DIRECT && !PAIRS)  // tiles widen bytes vector by vector
// Tiles that widen bytes have whole tiles of O.
enum { CODES = PAIRS ? 4 * LINE : NZ * NL < LINE ? LINE : NZ * NL, O_STEP = DIRECT ? CODES : LINE };
// Columns of a row that the tiles read. Tiles that widen vectors have no ends of rows: shorter ones are copied, with zeros behind.
INLINE i64 read_columns(i64 columns) { return BY_CODES ? ceil_div(columns, CODES) * CODES : columns; }
INLINE i64 o_stride_of(const FmhaCpuArgs& a) { return ceil_div(a.hdim_v, O_STEP) * O_STEP; }
INLINE i64 part_floats(const FmhaCpuArgs& a, i64 rows) { return 2 * ceil_div(rows, LINE) * LINE + rows * o_stride_of(a); }
INLINE Part part_in(float* at, i64 rows) {
  const i64 lines = ceil_div(rows, LINE) * LINE;
  return {at, at + lines, at + 2 * lines};
}

INLINE i64 head_of(const Group& g, i64 row) {
  const i64 n = row / g.s.nq;
  return FAULT_GQA_HEADS_SWAPPED ? g.hk + n * g.x->a->kv_heads : g.hk * (g.x->a->heads / g.x->a->kv_heads) + n;
}
INLINE i64 query_of(const Group& g, i64 row) { return row % g.s.nq; }

static Group group_at(const Context& x, i64 index) {
  Group g;
  g.x = &x;
  g.b = index / x.a->kv_heads;
  g.hk = index % x.a->kv_heads;
  g.s = sequence_of(x, g.b);
  g.rows = g.s.nq * (x.a->heads / x.a->kv_heads);
  const Span span = span_of(x, g.s, 0, g.s.nq - 1);
  g.hi = span.hi;
  g.lo = min64(span.lo, span.hi) / BC * BC;
  g.head = min64(ceil_div(span.head, BC) * BC, g.lo);
  return g;
}

INLINE i64 blocks_of(const Group& g) { return g.head / BC + ceil_div(g.hi - g.lo, BC); }
INLINE i64 block_start(const Group& g, i64 n) { return n * BC < g.head ? n * BC : g.lo + n * BC - g.head; }

// Writes the rows of a group from a part.
static void finish(const Group& g, const Part& part) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row) {
    const i64 h = head_of(g, row), i = query_of(g, row);
    const float sum = part.sum[row], *o = part.o + row * o_stride_of(a);
    const Scaled scaled = scaled_of(*g.x, g.b, h, i);
    const vf factor = vset(sum == 0 ? 0 : a.keep_scale * scaled.values / sum);
    T* out = o_row(a, g.s, g.b, h, i);
    vf bad = vset(sum) * vset(0);
    for (i64 c = 0; c < a.hdim_v; c += NL) {
      const i64 n = min64(NL, a.hdim_v - c);
      const vf y = vload_n(o + c, n) * factor;
      bad = vfma(y, vset(0), bad);
      vstore_n(out + c, y, n);
    }
    if (a.lse) *lse_at(a, g.s, g.b, h, i) = lse_of(part.top[row], scaled.unit, sum);
    if (vsum(bad) != 0) exact_row(*g.x, g.b, h, i);
    if (FAULT_NAN_ROW && g.b == a.batch - 1 && h == a.heads - 1 && i == g.s.nq - 1)
      for (i64 c = 0; c < a.hdim_v; ++c) from_float(out + c, __builtin_nanf(""));
  }
}


// Adds a part of the same rows to another.
static void merge(const Group& g, const Part& into, const Part& from) {
  const i64 o_stride = o_stride_of(*g.x->a);
  for (i64 row = 0; row < g.rows; ++row) {
    const float top = vmax(into.top[row], from.top[row]), floor = top == NEG_INF ? 0 : top;
    const float c = scaled_of(*g.x, g.b, head_of(g, row), query_of(g, row)).exponent;
    const float ours = __builtin_exp2f((into.top[row] - floor) * c), theirs = __builtin_exp2f((from.top[row] - floor) * c);
    for (i64 c = 0; c < o_stride; c += NL) {
      float* o = into.o + row * o_stride + c;
      vstore(o, vfma(vload(o), vset(ours), vload(from.o + row * o_stride + c) * vset(theirs)));
    }
    into.top[row] = top;
    into.sum[row] = into.sum[row] * ours + from.sum[row] * theirs;
  }
}
