// Decode with products in matrix tiles: 16 query rows at a time, so that rows cost little until there are many. K is copied and V paired
// by keys, 64 keys at a time, because memory must not wait for the latency of tiles. A tile has 16 keys against 16 transposed queries; the
// scores are transposed into rows. O stays in tiles until the keys are done.
enum {
  GROUP = TILE_ROWS,
  TILE = TILE_ROWS * TILE_ROWS,  // words
  DEPTH = 4 * TILE_ROWS,         // keys that are copied or paired before their products: in four tiles of scores
  // Floats of a row of scores: rows of a tile do not share sets of the first-level cache.
  P_STRIDE = (BC < DEPTH ? DEPTH : BC) + TILE_ROWS,
  ROW_BYTES = P_STRIDE * 4,
  COLUMNS = 4 * TILE_ROWS,  // of O, in four tiles
  AWAKE = 8,                // rows that are copied between two products
};
static_assert(STEP == TILE_ROWS && BC % TILE_KEYS == 0 && (BC < DEPTH || BC % DEPTH == 0), "whole tiles");

struct DecodeScratch {
  float *q, *p, *o;  // [head][group][..]: queries as pairs [16 pairs][16 rows] each, rows of scores, tiles of sums
  float* parts;      // one for each head, part_stride apart, laid out for `rows`
  i64 part_stride, rows;
  KT* copy;          // [key of a step][head][column]
  float *k, *v;      // [head][key][pair of columns], [head][pair of keys][column]
};

INLINE i64 whole_rows(i64 rows) { return ceil_div(rows, GROUP) * GROUP; }
INLINE i64 q_words(const FmhaCpuArgs& a) { return ceil_div(a.hdim, 32) * 16; }
INLINE i64 v_words(const FmhaCpuArgs& a) { return ceil_div(a.hdim_v, COLUMNS) * COLUMNS; }
INLINE i64 head_floats(const FmhaCpuArgs& a, i64 rows) {
  return whole_rows(rows) * (q_words(a) + P_STRIDE + v_words(a)) + DEPTH * q_words(a) + DEPTH / 2 * v_words(a);
}
INLINE i64 decode_floats(const FmhaCpuArgs& a, i64 rows) {
  const i64 copy = a.block_table ? STEP * max64(a.hdim, a.hdim_v) : 0;
  return ceil_div(head_floats(a, rows) + part_floats(a, rows) + copy, 64) * 64;
}
INLINE DecodeScratch scratch_at(const FmhaCpuArgs& a, float* at, i64 heads, i64 rows) {
  const i64 all = heads * whole_rows(rows);
  DecodeScratch work;
  work.q = at;
  work.p = work.q + all * q_words(a);
  work.o = work.p + all * P_STRIDE;
  work.v = work.o + all * v_words(a);
  work.k = work.v + heads * DEPTH / 2 * v_words(a);
  work.parts = work.k + heads * DEPTH * q_words(a);
  work.part_stride = part_floats(a, rows);
  work.rows = rows;
  work.copy = (KT*)(work.parts + heads * work.part_stride);
  return work;
}
INLINE Part part_of(const DecodeScratch& work, i64 h) { return part_in(work.parts + h * work.part_stride, work.rows); }

static void load_queries(const Group& g, float* q) {
  const FmhaCpuArgs& a = *g.x->a;
  float square[TILE];
  for (i64 first = 0; first < g.rows; first += GROUP)
    for (i64 c = 0; c < 2 * q_words(a); c += 2 * NL, q += TILE) {
      for (i64 row = first; row < first + GROUP; ++row) {
        const bool there = row < g.rows && c < a.hdim;
        vstore(square + (row - first) * NL,
               there ? vload_pairs(q_row(a, g.s, g.b, head_of(g, row), query_of(g, row)) + c, a.hdim - c) : vset(0));
      }
      transpose_square(q, NL, square, NL);
    }
}

// After half a microsecond without a product, the next ones wait for 25 ns, after a microsecond for 350: a product that nobody reads
// prevents that. Tiles are cleared or loaded before they are used.
INLINE void stay_awake() { tile_dot(0, 4, 5); }

// Rows of K of a step of n keys, copied in the order of memory, which hardware follows: a tile reads 16 rows in turns. Zeros stand behind
// the last column, because 0 * NaN is NaN.
template <bool FORM>
static void copy_keys(const Lines& keys, i64 n, i64 columns, float* to, i64 words) {
  const ROW* later = keys.far_at;
  for (i64 t = 0; t < n; ++t, to += words) {
    const ROW* row = keys.first + t * keys.stride;
    if (t % AWAKE == 0) stay_awake();
    for (i64 c = 0; c < columns; c += 2 * NL) {
      ask<FORM>(keys, row + c, later);
      vstore(to + c / 2, vload_pairs(row + c, FAULT_TILE_TAIL ? 2 * NL : columns - c));
    }
  }
}

// Raw scores of 64 copied keys into the rows of p.
static void score_keys(const Group& g, const float* q, float* p, const float* keys) {
  const i64 words = q_words(*g.x->a), next = GROUP * words;
  alignas(64) float s[4 * TILE];
  tile_fence();
  for (i64 row = 0; row < g.rows; row += GROUP, p += GROUP * P_STRIDE) {
    const float* k = keys;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (i64 w = 0; w < words; w += TILE_ROWS, k += TILE_ROWS, q += TILE) {
      tile_load(6, q, TILE_BYTES);
      tile_load(4, k, words * 4);
      tile_dot(0, 4, 6);
      tile_load(5, k + next, words * 4);
      tile_dot(1, 5, 6);
      tile_load(4, k + 2 * next, words * 4);
      tile_dot(2, 4, 6);
      tile_load(5, k + 3 * next, words * 4);
      tile_dot(3, 5, 6);
    }
    tile_store(0, s, TILE_BYTES);
    tile_store(1, s + TILE, TILE_BYTES);
    tile_store(2, s + 2 * TILE, TILE_BYTES);
    tile_store(3, s + 3 * TILE, TILE_BYTES);
    for (i64 n = 0; n < 4; ++n) transpose_square(p + n * TILE_ROWS, P_STRIDE, s + n * TILE, NL);
  }
}

// Rows of V of a step of n keys as pairs; an odd last one has zeros beside it.
template <bool FORM>
static void pair_values(const Lines& v, i64 n, i64 columns, float* to, i64 words) {
  const ROW* later = v.far_at;
  for (i64 t = 0; t < n; t += 2, to += words) {
    if (t % AWAKE == 0) stay_awake();
    const ROW *one = v.first + t * v.stride, *next = t + 1 < n ? one + v.stride : nullptr;
    for (i64 c = 0; c < columns; c += 2 * NL) {
      ask<FORM>(v, one + c, later);
      if (next) ask<FORM>(v, next + c, later);
      const vf a = vload_pairs(one + c, columns - c), b = next ? vload_pairs(next + c, columns - c) : vset(0);
      vstore(to + c, FAULT_TILE_PAIRS ? vweave_low(b, a) : vweave_low(a, b));
      vstore(to + c + NL, FAULT_TILE_PAIRS ? vweave_high(b, a) : vweave_high(a, b));
    }
  }
}

// Two groups of rows against two tiles of columns, or one against four: weights times paired values are added to O.
static void mix_two(const float* p, const float* v, i64 words, i64 steps, float* o, i64 o_group) {
  tile_load(0, o, TILE_BYTES);
  tile_load(1, o + TILE, TILE_BYTES);
  tile_load(2, o + o_group, TILE_BYTES);
  tile_load(3, o + o_group + TILE, TILE_BYTES);
  for (i64 n = 0; n < steps; ++n, p += TILE_ROWS, v += TILE_ROWS * words) {
    tile_load(4, p, ROW_BYTES);
    tile_load(6, v, words * 4);
    tile_load(7, v + TILE_ROWS, words * 4);
    tile_load(5, p + GROUP * P_STRIDE, ROW_BYTES);
    tile_dot(0, 4, 6);
    tile_dot(1, 4, 7);
    tile_dot(2, 5, 6);
    tile_dot(3, 5, 7);
  }
  tile_store(0, o, TILE_BYTES);
  tile_store(1, o + TILE, TILE_BYTES);
  tile_store(2, o + o_group, TILE_BYTES);
  tile_store(3, o + o_group + TILE, TILE_BYTES);
}
static void mix_one(const float* p, const float* v, i64 words, i64 steps, float* o) {
  tile_load(0, o, TILE_BYTES);
  tile_load(1, o + TILE, TILE_BYTES);
  tile_load(2, o + 2 * TILE, TILE_BYTES);
  tile_load(3, o + 3 * TILE, TILE_BYTES);
  for (i64 n = 0; n < steps; ++n, p += TILE_ROWS, v += TILE_ROWS * words) {
    tile_load(4, p, ROW_BYTES);
    tile_load(5, v, words * 4);
    tile_dot(0, 4, 5);
    tile_load(6, v + TILE_ROWS, words * 4);
    tile_dot(1, 4, 6);
    tile_load(7, v + 2 * TILE_ROWS, words * 4);
    tile_dot(2, 4, 7);
    tile_load(5, v + 3 * TILE_ROWS, words * 4);
    tile_dot(3, 4, 5);
  }
  tile_store(0, o, TILE_BYTES);
  tile_store(1, o + TILE, TILE_BYTES);
  tile_store(2, o + 2 * TILE, TILE_BYTES);
  tile_store(3, o + 3 * TILE, TILE_BYTES);
}

// O of a head += weights of `keys` keys, of which p has the first, times their paired values.
static void mix_values(const Group& g, const float* p, i64 keys, const float* v, float* o) {
  const i64 words = v_words(*g.x->a), steps = ceil_div(keys, TILE_KEYS), o_group = GROUP * words;
  tile_fence();
  for (i64 row = 0; row < g.rows; p += 2 * GROUP * P_STRIDE, o += 2 * o_group, row += 2 * GROUP) {
    const bool two = row + GROUP < g.rows;
    for (i64 c = 0; c < words; c += two ? 2 * TILE_ROWS : COLUMNS)
      two ? mix_two(p, v + c, words, steps, o + c * GROUP, o_group) : mix_one(p, v + c, words, steps, o + c * GROUP);
  }
}
static void round_sums(float* o, i64 n) {
  for (i64 e = 0; e < n; ++e) {
    LOW low;
    from_float(&low, o[e]);
    o[e] = to_float(low);
  }
}

// Sums of rows whose maximum has risen.
static void scale_sums(const Group& g, float* o, const float* shrink) {
  const i64 words = v_words(*g.x->a);
  for (i64 row = 0; row < g.rows; ++row)
    if (shrink[row] != 1)
      for (i64 c = 0; c < words; c += NL) {
        float* at = o + row / GROUP * GROUP * words + c * GROUP + row % GROUP * NL;
        vstore(at, vload(at) * vset(shrink[row]));
      }
}

static void take_sums(const Group& g, const float* o, const Part& part) {
  const FmhaCpuArgs& a = *g.x->a;
  for (i64 row = 0; row < g.rows; ++row)
    for (i64 c = 0; c < o_stride_of(a); c += NL)
      vstore(part.o + row * o_stride_of(a) + c, vload(o + row / GROUP * GROUP * v_words(a) + c * GROUP + row % GROUP * NL));
}

// Blocks [first, end) of the groups of `heads` key/value heads from g on into their parts; those that lead hold what every
// row starts with. A step of keys goes through all heads, so that memory is read in order where rows of heads are neighbours.
template <bool FORM>
static void attend(Group g, i64 heads, i64 first, i64 end, bool leads, const DecodeScratch& work) {
  const Flush tiny;
  const FmhaCpuArgs& a = *g.x->a;
  const i64 blocks = blocks_of(g), hk = g.hk, last = g.hi - 1, rows = whole_rows(g.rows), words = v_words(a);
  const i64 q_size = rows * q_words(a), p_size = rows * P_STRIDE, o_size = rows * words, v_size = DEPTH / 2 * words,
            k_size = DEPTH * q_words(a);
  const KeyRows k = key_rows(a, g.s, g.b, hk), v = value_rows(a, g.s, g.b, hk);
  for (i64 h = 0; h < heads; ++h) {
    g.hk = hk + h;
    start_part(g, part_of(work, h), leads);
    load_queries(g, work.q + h * q_size);
    memset(work.o + h * o_size, 0, (size_t)o_size * sizeof(float));
  }
#if BYTES
  StepRows wide_k(*g.x, k, a.hdim, a.k_head_stride, last), wide_v(*g.x, v, a.hdim_v, a.v_head_stride, last);
#else
  const bool whole = heads == 1 && !k.pages;
  const bool torn = k.pages && k.page % STEP;  // steps are on several pages
#endif
  for (i64 n = first; n < end; ++n) {
    const i64 j0 = block_start(g, n);
    i64 count = min64(BC, (n * BC < g.head ? g.head : g.hi) - j0);
    if (FAULT_TILE_SKIPPED && n == 1) continue;
    if (FAULT_TILE_SKIPPED && blocks == 1) count = max64(1, count / 2);
    for (i64 from = 0; from < count; from += DEPTH) {
      for (i64 j = from; j < min64(from + DEPTH, count); j += STEP) {
        const i64 keys = min64(STEP, count - j);
#if !BYTES
        const Lines step_k = whole  ? lines_of(a, k, j0 + j, a.hdim)
                             : torn ? gather(k, j0 + j, keys, last, heads, a.k_head_stride, a.hdim, work.copy)
                                    : step_lines(k, j0 + j, last);
#endif
        for (i64 h = 0; h < heads; ++h) {
#if BYTES
          const Lines at = wide_k.template widened<FORM>(j0 + j, keys, h);
#else
          const Lines at = for_head(*g.x, step_k, h, heads, torn ? a.hdim : a.k_head_stride, a.hdim);
#endif
          copy_keys<FORM>(at, keys, a.hdim, work.k + h * k_size + (j - from) * q_words(a), q_words(a));
        }
      }
      for (i64 h = 0; h < heads; ++h) score_keys(g, work.q + h * q_size, work.p + h * p_size + from, work.k + h * k_size);
    }
    for (i64 h = 0; h < heads; ++h) {
      const Part part = part_of(work, h);
      g.hk = hk + h;
      Factors room;
      const Factors* by = factors_of(g, j0, count, room);
      float shrink[MAX_ROWS];
      for (i64 row = 0; row < g.rows; ++row) {
        float* p = work.p + h * p_size + row * P_STRIDE;
        stay_awake();
        shrink[row] = weigh_row(g, row, p, j0, count, part.top[row], part.sum[row], n == blocks - 1, by);
        const i64 weighed = ceil_div(count, NL) * NL;
        if (weighed % TILE_KEYS && !FAULT_TILE_TAIL) memset((WEIGHT*)p + weighed, 0, NL * sizeof(WEIGHT));
      }
      scale_sums(g, work.o + h * o_size, shrink);
    }
    for (i64 from = 0; from < count; from += DEPTH) {
      for (i64 j = from; j < min64(from + DEPTH, count); j += STEP) {
        const i64 keys = min64(STEP, count - j);
#if !BYTES
        const Lines step_v = whole  ? lines_of(a, v, j0 + j, a.hdim_v)
                             : torn ? gather(v, j0 + j, keys, last, heads, a.v_head_stride, a.hdim_v, work.copy)
                                    : step_lines(v, j0 + j, last);
#endif
        for (i64 h = 0; h < heads; ++h) {
#if BYTES
          const Lines at = wide_v.template widened<FORM>(j0 + j, keys, h);
#else
          const Lines at = for_head(*g.x, step_v, h, heads, torn ? a.hdim_v : a.v_head_stride, a.hdim_v);
#endif
          pair_values<FORM>(at, keys, a.hdim_v, work.v + h * v_size + (j - from) / 2 * words, words);
        }
      }
      const i64 some = min64(DEPTH, count - from), pairs = ceil_div(some, 2), all = ceil_div(some, TILE_KEYS) * TILE_ROWS;
      for (i64 h = 0; h < heads; ++h) {
        float* paired = work.v + h * v_size;
        if (!FAULT_TILE_TAIL) memset(paired + pairs * words, 0, (size_t)((all - pairs) * words) * sizeof(float));
        mix_values(g, (const float*)((const WEIGHT*)(work.p + h * p_size) + from), some, paired, work.o + h * o_size);
        if (FAULT_LOW_PRECISION_ACC) round_sums(work.o + h * o_size, o_size);
      }
    }
  }
  for (i64 h = 0; h < heads; ++h) take_sums(g, work.o + h * o_size, part_of(work, h));
}
