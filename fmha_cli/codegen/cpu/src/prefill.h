// Prefill: lanes are queries. A tile of BQ queries against blocks of at most BC keys:
//   S^T[key][query] = K[key][:] . Q^T    K scalars broadcast straight from the tensor, Q packed once
//   P^T = exp2((S^T - top) * exponent)   running maximum and sum for each lane
//   O^T[d][query] += V[key][d] * P^T     V scalars broadcast
// so K and V are never transposed, no sum runs across lanes, and any hdim is only a loop count.
// Several tiles of one head may take turns at each block of keys, which then comes from a near cache for all but the first.
// K and V of one sequence and head as the tile loop reads them; strides in elements.
struct KeysValues {
  const KEY* k;
  i64 k_stride;
  const VALUE* v;
  i64 v_stride;
};

const i64 FAR_BYTES = 4 << 20;  // of K and V of a sequence
enum { ASKED = 4 * RS };  // keys ahead of their use

// Keys [lo, hi) in blocks of about equal size, each a multiple of the register tile; j is where the next one begins.
struct Sweep {
  i64 j, lo, hi, step;
  bool final;
};

struct Tile {
  const Context* x;
  Sequence s;
  KeysValues kv;
  i64 b, h, i0, rows;
  i64 ahead;  // keys behind those at hand that are asked for; 0: none
  float down;     // minus the ALiBi slope
  bool started;  // O holds something
  Sweep now, then;
  float *q, *o, *p, *bias, *k_tail;
  float top[BQ], sum[BQ], peak[BQ], shrink[BQ], floor[BQ];
  float high[BQ], low[BQ];  // extremes of scores that are capped with the exponent
  Scaled scaled;
  Capped capped;
#if TILES
  Sloped sloped;
  Start start;
  bool fused;  // floors are small enough to be scaled before they are subtracted
  float base[BQ];  // what is to be added to the scores of a block
#endif
  float k_factor[BYTES ? BC : 1], v_factor[BYTES ? BC : 1];  // of the keys of a block, if they change from key to key
};

// Factors of a second part of a block.
struct Ones {
  float of[BQ];
  constexpr Ones() : of() {
    for (auto& x : of) x = 1;
  }
};
static constexpr Ones ONES;

// Scratch of a tile, and what the tiles of a thread share.
INLINE i64 tile_floats(i64 hdim, i64 hdim_v) {
  return ((i64)(sizeof(Tile) / sizeof(float)) + BQ * (whole_columns(hdim) + whole_columns(hdim_v)) + 127) / 64 * 64;
}
INLINE i64 shared_floats(i64 hdim) {
  const i64 width = key_width(hdim), wide = BYTES_Q ? BQ * (width + 1) : 0;
  return (BQ * (BC + NL) + RS * width + wide + 127) / 64 * 64 + SLOPE_FLOATS;
}

// K and V of RS keys from j on, into the second-level cache: a thread's first tile of a head finds them farther away, and so does
// each tile of a sequence that this cache does not hold.
INLINE void ask_keys(const Tile& t, i64 j) {
  const KEY* k = t.kv.k + j * t.kv.k_stride;
  const VALUE* v = t.kv.v + j / V_STEP * t.kv.v_stride;
  for (i64 r = 0; r < RS; ++r, k += t.kv.k_stride)
    for (i64 c = 0; c < t.x->a->hdim; c += 64 / (i64)sizeof *k) __builtin_prefetch(k + c, 0, 2);
  for (i64 r = 0; r < RS; r += V_STEP, v += t.kv.v_stride)
    for (i64 c = 0; c < t.x->a->hdim_v; c += 64 / (i64)sizeof *v) __builtin_prefetch(v + c, 0, 2);
}

// The running minimum of n rows of scores, which were just stored.
static void lower(const float* s, i64 n, float* low) {
  for (int z = 0; z < NZ; ++z, s += NL, low += NL) {
    vf a = vload(low), b = vload(s);
    for (i64 r = 1; r < n; r += 2) a = vmin(vload(s + r * BQ), a), b = vmin(vload(s + (r + 1 < n ? r + 1 : 0) * BQ), b);
    vstore(low, vmin(a, b));
  }
}

// S of keys [j0, j1) into p, the running maximum of the raw scores into top, and their minimum into low unless that is null.
// UPPER_HALF: of the upper half of the queries.
template <bool UPPER_HALF = false>
static void score_block(Tile& t, i64 j0, i64 j1, float* p, float* top, float* low = nullptr) {
#if TILES
#define FROM(j) , t.start, j
#else
#define FROM(j)
#endif
#if UPPER
  enum { FIRST = UPPER_HALF ? BQ / 2 : 0 };
  const auto tile = UPPER_HALF ? QK_UPPER : QK_FULL;
#else
  enum { FIRST = 0 };
  const auto tile = QK_FULL;
#endif
  const i64 hdim = t.x->a->hdim, width = key_width(hdim);
  i64 j = j0;
  const auto rows_by = [&](const auto multiply, i64 rows) {
    for (; j + rows <= j1; j += rows) {
      float* at = p + (j - j0) * BQ;
      if (t.ahead && j + t.ahead < t.s.nk) ask_keys(t, j + t.ahead);
      multiply((const char*)(t.kv.k + j * t.kv.k_stride), t.kv.k_stride * (i64)sizeof(KEY), t.q + FIRST, hdim, at + FIRST,
               top + FIRST FROM(j));
      if (low) lower(at, rows, low);
    }
  };
  rows_by(tile, RS);
#if QUADS
  rows_by(QK_QUAD, QUAD);
  enum { LAST = QUAD };
  const auto last = QK_QUAD;
#else
  enum { LAST = RS };
  const auto last = tile;
#endif
  if (j == j1) return;
  // The last rows alone: what lies behind them may not exist, and must not enter the maximum.
  KEY* tail = (KEY*)t.k_tail;
  for (i64 r = 0; r < LAST; ++r)
    memcpy(tail + r * width, t.kv.k + min64(j + r, j1 - 1) * t.kv.k_stride, (size_t)width * sizeof(KEY));
  last((const char*)tail, width * (i64)sizeof(KEY), t.q + FIRST, hdim, p + (j - j0) * BQ + FIRST, top + FIRST FROM(j));
  if (low) lower(p + (j - j0) * BQ, j1 - j, low);
}

// What a mask leaves of keys [j0, j1), in register tiles from j0 on: keys [whole, partial) are seen by every row, and from `upper`
// on only the upper half of the queries sees any.
struct Parts {
  i64 whole, partial, upper;
};

static Parts parts_of(const Tile& t, i64 j0, i64 j1) {
  const Context& x = *t.x;
  const i64 first = t.i0 + t.s.delta, last = first + t.rows - 1;
  const auto before = [&](i64 j, i64 end) { return j >= end ? end : j0 + max64(j - j0, 0) / RS * RS; };
  const auto behind = [&](i64 j, i64 end) { return j >= end ? end : min64(end, j0 + ceil_div(max64(j - j0, 0), RS) * RS); };
  Parts at;
  at.partial = x.has_right ? before(first + x.right + 1, j1) : j1;
  at.whole = x.has_left && j1 > x.a->sink ? behind(last - x.left, at.partial) : j0;
  at.upper = UPPER && x.has_right ? max64(at.partial, behind(first + BQ / 2 + x.right, j1)) : j1;
  return at;
}

// Scores of keys that some row does not see. Their maximum is found later, by the mask or with features; those of the lower half of
// the queries from `upper` on are not computed.
static void score_hidden(Tile& t, i64 j0, const Parts& at, i64 j1) {
  float unused[BQ];
  score_block(t, j0, at.whole, t.p, unused);
  score_block(t, at.partial, at.upper, t.p + (at.partial - j0) * BQ, unused);
  score_block<true>(t, at.upper, j1, t.p + (at.upper - j0) * BQ, unused);
}

// Hides keys of [j0, j1), whose scores start at p; what remains enters t.peak.
static void mask_block(Tile& t, i64 j0, i64 j1, float* p) {
  const Context& x = *t.x;
  const i64 base = t.i0 + t.s.delta;
  for (i64 j = j0; j < j1; ++j) {
    const i64 lo = x.has_right ? clamp64(j - base - x.right, 0, BQ) : 0;
    const i64 hi = x.has_left && j >= x.a->sink ? clamp64(j - base + x.left + 1, 0, BQ) : BQ;
    float* s = p + (j - j0) * BQ;
    for (int z = 0; z < NZ; ++z) {
      const vm seen = vrange(clamp64(lo - z * NL, 0, NL), clamp64(hi - z * NL, 0, NL));
      const vf y = vpick(seen, vload(s + z * NL), vset(NEG_INF));
      vstore(s + z * NL, y);
      vstore(t.peak + z * NL, vmax(y, vload(t.peak + z * NL)));
    }
  }
}

// Raw scores of up to NL keys of one vector of queries to finished ones; their maximum enters top.
template <bool CAP>
static void finish_keys(Finish f, float* s, i64 count, const float* bias, vf distance, vf down, float* top, const float* by) {
  const float before = f.before;
  vf peak = vload(top);
  for (i64 n = 0; n < count; ++n, s += BQ, bias += BQ) {
    if (BYTES && by) f.before = before * by[n];
    const vf y = finish_score<CAP>(f, vload(s), f.bias ? vload(bias) : vset(0), distance, down);
    distance = distance - vset(1);
    vstore(s, y);
    peak = vmax(y, peak);
  }
  vstore(top, peak);
}

// The same for keys [j0, j1) of the tile.
static void feature_block(Tile& t, i64 j0, i64 j1, float* p, float* top) {
  const Finish f = t.scaled.finish;
  const FmhaCpuArgs& a = *t.x->a;
  const float* by = by_key(a) ? t.k_factor + (p - t.p) / BQ : nullptr;
  const vf down = vset(t.down);
  for (i64 j = j0; j < j1; j += NL, p += NL * BQ) {
    const i64 count = min64(NL, j1 - j);
    if (f.bias) {
      const BT* bias = bias_row(a, t.b, t.h, t.i0) + j;
      // One line from each of many rows: no hardware prefetcher follows that.
      for (i64 r = 0; r < t.rows; ++r) __builtin_prefetch(bias + r * a.bias_row_stride + 4 * NL);
      transpose_in<false>(t.bias, bias, a.bias_row_stride, t.rows, count);
    }
    for (int z = 0; z < NZ; ++z) {
      const vf distance = viota() + vset((float)(t.i0 + t.s.delta + z * NL - j));
      (f.cap > 0 ? finish_keys<true> : finish_keys<false>)(f, p + z * NL, count, t.bias + z * NL, distance, down,
                                                           top + z * NL, by);
    }
    if (by) by += NL;
  }
}

INLINE void clear_peak(Tile& t) {
  for (int z = 0; z < NZ; ++z) vstore(t.peak + z * NL, vset(NEG_INF));
}

// The maxima of raw scores, which are kept, as those of capped ones: tanh rises with its argument.
static void cap_peak(Tile& t) {
  for (int z = 0; z < NZ; ++z) {
    const vf raw = vload(t.peak + z * NL);
    vstore(t.high + z * NL, raw);
    vstore(t.peak + z * NL, capped(t.capped.by, raw));
  }
}
