// Blocks of keys against all rows of some groups of one sequence, into a part for each.
struct DecodeScratch {
  float *q, *p;  // [head][row][q_stride], [head][row][BC]
  float* parts;  // one for each head, part_stride apart, laid out for `rows`
  i64 part_stride, rows;
  KT* copy;  // [key of a step][head][column]
  float* wide;  // a widened step of one head, for tiles that read it (decode_bytes.h, decode_codes.h)
};

INLINE i64 q_stride_of(const FmhaCpuArgs& a) { return ceil_div(read_columns(a.hdim), QUERY_STEP) * QUERY_VECTORS * NL; }
INLINE i64 wide_floats(const FmhaCpuArgs& a, i64 rows) {
  return rows < WIDENED_ROWS ? 0 : STEP * ceil_div(max64(a.hdim, a.hdim_v), 4 * LINE) * (PAIRS ? 2 : 4) * LINE;
}
INLINE i64 decode_floats(const FmhaCpuArgs& a, i64 rows) {
  const i64 k = read_columns(a.hdim), v = read_columns(a.hdim_v), copied = a.block_table || k != a.hdim || v != a.hdim_v;
  const i64 copy = copied ? STEP * max64(k, v) : 0;
  return (rows * (q_stride_of(a) + BC) + part_floats(a, rows) + copy + wide_floats(a, rows) + 63) / 64 * 64;
}

INLINE DecodeScratch scratch_at(const FmhaCpuArgs& a, float* at, i64 heads, i64 rows) {
  DecodeScratch work;
  work.q = at;
  work.p = work.q + heads * rows * q_stride_of(a);
  work.parts = work.p + heads * rows * BC;
  work.part_stride = part_floats(a, rows);
  work.rows = rows;
  work.wide = work.parts + heads * work.part_stride;
  work.copy = (KT*)(work.wide + heads * wide_floats(a, rows));
  return work;
}

INLINE Part part_of(const DecodeScratch& work, i64 h) { return part_in(work.parts + h * work.part_stride, work.rows); }

static void load_queries(const Group& g, float* q) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row) {
    const QT* from = q_row(a, g.s, g.b, head_of(g, row), query_of(g, row));
    for (i64 c = 0; c < read_columns(a.hdim); c += QUERY_STEP, q += QUERY_VECTORS * NL) store_query(q, from + c, min64(QUERY_STEP, a.hdim - c));
  }
}

#if BY_CODES
#define LOOP NOINLINE  // called from two places, which would double the compile time
#else
#define LOOP static
#endif

// Raw scores of n keys into p.
template <bool FORM>
LOOP void score_keys(const Group& g, const float* q, float* p, const Lines& keys, i64 n) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 q_stride = q_stride_of(a), columns = read_columns(a.hdim);
  enum { FEW = NL / MANY };
  i64 row = 0;
  for (; row + MANY <= g.rows; row += MANY)
    for (i64 j = 0; j < n; j += FEW) {
      float s[NL];
      vstore(s, DOT_MANY<FORM>(q + row * q_stride, q_stride, from_line(keys, j), n - 1 - j, columns));
      for (i64 r = 0; r < MANY; ++r) memcpy(p + (row + r) * BC + j, s + r * FEW, FEW * sizeof(float));
    }
  for (; row < g.rows; ++row)
    for (i64 j = 0; j < n; j += NL)
      vstore(p + row * BC + j, dot_1<FORM>(q + row * q_stride, q_stride, from_line(keys, j), n - 1 - j, columns));
}

enum { FEW_WIDE = 2 * NZ * NL, ONE_WIDE = (BY_CODES ? 4 : 2) * NZ * NL };  // columns of the widest tiles

// mix_values for rows [begin, end), whose first `wide` columns go by the widest tiles.
template <bool FORM>
LOOP void mix_rows(const FmhaCpuArgs& a, i64 begin, i64 end, i64 wide, const float* p, i64 j, float* o, const Lines& v, i64 n,
                     const float* factor) {
  const i64 o_stride = o_stride_of(a), columns = read_columns(a.hdim_v);
  for (i64 row = begin; wide > 0 && row < end;) {
    const bool few = row + WIDE_ROWS <= end;
    const float* w = (const float*)((const WEIGHT*)(p + row * BC) + j);
    for (i64 c = 0, step = few ? (i64)FEW_WIDE : (i64)ONE_WIDE; c < wide; c += step)
      (few ? MIX_WIDE<FORM> : MIX_ONE_WIDE<FORM>)(o + row * o_stride + c, o_stride, w, BC, v, c, n, factor + row, step);
    row += few ? WIDE_ROWS : 1;
  }
  for (i64 row = begin; wide < columns && row < end;) {
    const bool many = row + MANY <= end;
    const float* w = (const float*)((const WEIGHT*)(p + row * BC) + j);
    float* out = o + row * o_stride;
    i64 c = wide;
    for (; c + NZ * NL <= columns; c += NZ * NL)
      (many ? MIX_MANY<FORM> : MIX_ONE<FORM>)(out + c, o_stride, w, BC, v, c, n, factor + row, NZ * NL);
    for (; c < columns; c += LEFT)
      (many ? MIX_MANY_N<FORM> : MIX_ONE_N<FORM>)(out + c, o_stride, w, BC, v, c, n, factor + row, min64(LEFT, columns - c));
    row += many ? MANY : 1;
  }
}

// O = O times factors + weights of n keys from j on times V, n so small that their rows of V stay in the first-level cache.
template <bool FORM>
static void mix_values(const Group& g, const float* p, i64 j, float* o, const Lines& v, i64 n, const float* factor) {
  const FmhaCpuArgs& a = *g.x->a;
  const i64 o_stride = o_stride_of(a), columns = read_columns(a.hdim_v);
  // Whole rows of V first, in the order of memory: a row in two parts is no run of lines. But bytes are widened once for many rows.
  const i64 wide = DIRECT && PAIRS ? 0 : columns / ONE_WIDE * ONE_WIDE, many = BY_CODES ? g.rows / MANY * MANY : 0;
  if (many) mix_rows<FORM>(a, 0, many, 0, p, j, o, v, n, factor);
  if (many < g.rows) mix_rows<FORM>(a, many, g.rows, wide, p, j, o, v, n, factor);
  if (FAULT_LOW_PRECISION_ACC)
    for (i64 e = 0; e < g.rows * o_stride; ++e) {
      LOW low;
      from_float(&low, o[e]);
      o[e] = to_float(low);
    }
}

// Blocks [first, end) of the groups of `heads` key/value heads from g on into their parts; those that lead hold what every
// row starts with. A step of keys goes through all heads, so that memory is read in order where rows of heads are neighbours.
template <bool FORM>
static void attend(Group g, i64 heads, i64 first, i64 end, bool leads, const DecodeScratch& work) {
  const Flush tiny;
  const FmhaCpuArgs& a = *g.x->a;
  const i64 blocks = blocks_of(g), hk = g.hk, last = g.hi - 1, q_size = g.rows * q_stride_of(a), p_size = g.rows * BC;
  const KeyRows k = key_rows(a, g.s, g.b, hk), v = value_rows(a, g.s, g.b, hk);
  float ones[MAX_ROWS], shrink[MAX_ROWS];
  for (i64 row = 0; row < MAX_ROWS; ++row) ones[row] = 1;
  for (i64 h = 0; h < heads; ++h) {
    g.hk = hk + h;
    start_part(g, part_of(work, h), leads);
    load_queries(g, work.q + h * q_size);
  }
#if BYTES && !DIRECT
  const bool whole = false;
  StepRows wide_k(*g.x, k, a.hdim, a.k_head_stride, last), wide_v(*g.x, v, a.hdim_v, a.v_head_stride, last);
#else
  const i64 columns = read_columns(a.hdim), columns_v = read_columns(a.hdim_v);
  const bool torn = k.pages && k.page % STEP;  // steps are on several pages
  const bool copied_k = torn || columns != a.hdim, copied_v = torn || columns_v != a.hdim_v;
  // A block of one head is read as one run.
  const bool whole = heads == 1 && !k.pages && !copied_k && !copied_v && g.rows < WIDENED_ROWS;
#endif
  for (i64 n = first; n < end; ++n) {
    const i64 j0 = block_start(g, n);
    i64 count = min64(BC, (n * BC < g.head ? g.head : g.hi) - j0);
    if (FAULT_TILE_SKIPPED && n == 1) continue;
    if (FAULT_TILE_SKIPPED && blocks == 1) count = max64(1, count / 2);
    const i64 step = whole ? count : (i64)STEP;
    for (i64 j = 0; j < count; j += step) {
      const i64 keys = min64(step, count - j);
#if BYTES && !DIRECT
      for (i64 h = 0; h < heads; ++h)
        score_keys<FORM>(g, work.q + h * q_size, work.p + h * p_size + j, wide_k.template widened<FORM>(j0 + j, keys, h), keys);
#else
      const Lines step_k = whole      ? lines_of(a, k, j0, a.hdim)
                           : copied_k ? gather(k, j0 + j, keys, last, heads, a.k_head_stride, a.hdim, work.copy)
                                      : step_lines(k, j0 + j, last);
      for (i64 h = 0; h < heads; ++h) {
        Lines at = for_head(*g.x, step_k, h, heads, copied_k ? columns : a.k_head_stride, columns);
        if (DIRECT && g.rows >= WIDENED_ROWS) at.wide = widen_keys(at, keys, columns, work.wide);
        at.odd = holds_no_number(at, keys, columns);
        BY_FORM(score_keys, at, g, work.q + h * q_size, work.p + h * p_size + j, at, keys);
      }
#endif
    }
    for (i64 h = 0; h < heads; ++h) {
      const Part part = part_of(work, h);
      g.hk = hk + h;
      Factors room;
      const Factors* by = factors_of(g, j0, count, room);
      for (i64 row = 0; row < g.rows; ++row)
        shrink[h * g.rows + row] = weigh_row(g, row, work.p + h * p_size + row * BC, j0, count, part.top[row], part.sum[row],
                                             n == blocks - 1, by);
    }
    for (i64 j = 0; j < count; j += STEP) {
      const i64 keys = min64(STEP, count - j);
#if BYTES && !DIRECT
      for (i64 h = 0; h < heads; ++h)
        mix_values<FORM>(g, work.p + h * p_size, j, part_of(work, h).o, wide_v.template widened<FORM>(j0 + j, keys, h), keys,
                        j ? ones : shrink + h * g.rows);
#else
      const Lines step_v = whole      ? lines_of(a, v, j0 + j, a.hdim_v)
                           : copied_v ? gather(v, j0 + j, keys, last, heads, a.v_head_stride, a.hdim_v, work.copy)
                                      : step_lines(v, j0 + j, last);
      for (i64 h = 0; h < heads; ++h) {
        Lines at = for_head(*g.x, step_v, h, heads, copied_v ? columns_v : a.v_head_stride, columns_v);
        if (DIRECT && g.rows >= WIDENED_ROWS) at.wide = widen_values(at, keys, columns_v, work.wide);
        at.odd = holds_no_number(at, keys, columns_v);
        BY_FORM(mix_values, at, g, work.p + h * p_size, j, part_of(work, h).o, at, keys, j ? ones : shrink + h * g.rows);
      }
#endif
    }
  }
  for (i64 h = 0; h < heads && DIRECT; ++h)
    for (i64 row = 0; row < g.rows; ++row) straighten(part_of(work, h).o + row * o_stride_of(a), a.hdim_v);
}
