// Prefill: lanes are queries. A tile of BQ queries against blocks of at most BC keys:
//   S^T[key][query] = K[key][:] . Q^T    K scalars broadcast straight from the tensor, Q packed once
//   P^T = exp2(S^T * exponent - top)     running maximum and sum for each lane
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
  Scaled scaled;
  Capped capped;
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
  return (BQ * (BC + NL) + RS * width + wide + 127) / 64 * 64;
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

// S of keys [j0, j1) into p, and the running maximum of the raw scores into top. UPPER_HALF: of the upper half of the queries.
template <bool UPPER_HALF = false>
static void score_block(Tile& t, i64 j0, i64 j1, float* p, float* top) {
#if UPPER
  enum { FIRST = UPPER_HALF ? BQ / 2 : 0 };
  const auto tile = UPPER_HALF ? QK_UPPER : QK_FULL;
#else
  enum { FIRST = 0 };
  const auto tile = QK_FULL;
#endif
  const i64 hdim = t.x->a->hdim, width = key_width(hdim);
  i64 j = j0;
  for (; j + RS <= j1; j += RS) {
    if (t.ahead && j + t.ahead < t.s.nk) ask_keys(t, j + t.ahead);
    tile((const char*)(t.kv.k + j * t.kv.k_stride), t.kv.k_stride * (i64)sizeof(KEY), t.q + FIRST, hdim,
         p + (j - j0) * BQ + FIRST, top + FIRST);
  }
  if (j == j1) return;
  // The last rows alone: what lies behind them may not exist, and must not enter the maximum.
  KEY* tail = (KEY*)t.k_tail;
  for (i64 r = 0; r < RS; ++r)
    memcpy(tail + r * width, t.kv.k + min64(j + r, j1 - 1) * t.kv.k_stride, (size_t)width * sizeof(KEY));
  tile((const char*)tail, width * (i64)sizeof(KEY), t.q + FIRST, hdim, p + (j - j0) * BQ + FIRST, top + FIRST);
}

// The first key of [j0, j1) from which on only the upper half of the queries sees any; a multiple of RS from j0, or j1.
static i64 first_upper(const Tile& t, i64 j0, i64 j1) {
  if (!UPPER || !t.x->has_right) return j1;
  const i64 lower = t.i0 + BQ / 2 - 1 + t.s.delta + t.x->right;  // the last key that the lower half sees
  return lower + 1 >= j1 ? j1 : min64(j1, j0 + ceil_div(max64(lower + 1 - j0, 0), RS) * RS);
}

// Scores whose maximum is found later, by the mask or with features; those of the lower half from `upper` on are not computed.
static void score_hidden(Tile& t, i64 j0, i64 upper, i64 j1, float* p) {
  float unused[BQ];
  score_block(t, j0, upper, p, unused);
  score_block<true>(t, upper, j1, p + (upper - j0) * BQ, unused);
}

// The first key of [j0, j1) that some row does not see; a multiple of RS from j0, or j1.
static i64 first_partial(const Tile& t, i64 j0, i64 j1) {
  const Context& x = *t.x;
  const i64 first = t.i0 + t.s.delta, last = first + t.rows - 1;
  if (x.has_left && j1 > x.a->sink && j0 < last - x.left) return j0;
  const i64 seen = x.has_right ? first + x.right + 1 : j1;
  return seen >= j1 ? j1 : j0 + max64(seen - j0, 0) / RS * RS;
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

// The maxima of raw scores as those of capped ones: tanh rises with its argument.
static void cap_peak(Tile& t) {
  const vf whole = vset(1 / t.scaled.exponent);
  for (int z = 0; z < NZ; ++z) vstore(t.peak + z * NL, capped(t.capped, vload(t.peak + z * NL)) * whole);
}

// New maximum, the factor for what was summed before, and the floor that is subtracted from exponents.
static void raise_top(Tile& t) {
  const vf c = vset(t.scaled.exponent);
  for (int z = 0; z < NZ; ++z) {
    const vf old = vload(t.top + z * NL), top = vmax(vload(t.peak + z * NL) * c, old);
    const vf floor = vpick(vabove(top, vset(NEG_INF)), top, vset(0));  // nothing seen yet: exponents stay -inf
    vstore(t.top + z * NL, top);
    vstore(t.floor + z * NL, floor);
    vstore(t.shrink + z * NL, vexp2(old - floor));
  }
}

// Scores of n keys to weights, in place (paired weights take half the room), and the sums. The first `raw` of them are not capped
// yet.
static void weigh_block(Tile& t, i64 raw, i64 n, bool last) {
  const vf c = vset(t.scaled.exponent);
  if (FAULT_V_ROWS_SWAPPED && n > 1)
    for (int lane = 0; lane < BQ; ++lane) {
      float keep = t.p[lane];
      t.p[lane] = t.p[BQ + lane];
      t.p[BQ + lane] = keep;
    }
  const bool kept = FAULT_ROW_SUM_SHORT && last;
  float* out = t.p;
  const float* shrink = t.shrink;
  if (raw > 0) {
    weigh_capped(t.capped, t.p, raw, t.floor, t.sum, t.shrink, kept);
    if (raw == n) return;
    shrink = ONES.of;
    out += raw / (PAIRS ? 2 : 1) * BQ;
  }
  weigh(t.p + raw * BQ, out, n - raw, c, t.floor, t.sum, shrink, kept, by_key(*t.x->a) ? t.v_factor : nullptr);
}

// Dropout on the scores' exponents would change the sum, so it is applied to the weights afterwards.
static void drop_block(Tile& t, i64 j0, i64 j1) {
  const FmhaCpuArgs& a = *t.x->a;
  for (i64 quad = j0 >> 2; quad * 4 < j1; ++quad)
    for (int z = 0; z < NZ; ++z) {
      vu c[4] = {vu{} + (uint32_t)quad, vlanes() + (uint32_t)(t.i0 + z * NL),
                 vu{} + (uint32_t)(t.b * a.heads + t.h), vu{} + a.offset};
      philox(c, a.seed);
      for (i64 w = 0; w < 4; ++w) {
        const i64 j = quad * 4 + w;
        if (j < j0 || j >= j1) continue;
        const vm keep = vreaches(c[w], a.dropout_threshold);
        if (FAULT_DROPOUT_INVERTED)
          drop_weight(t.p, j - j0, z, vpick(keep, vset(0), vset(as_float(~0u))));
        else
          drop_weight(t.p, j - j0, z, vpick(keep, vset(as_float(~0u)), vset(0)));
      }
    }
}

static void value_block(Tile& t, i64 j0, i64 upper, i64 n) {
  const VALUE* v = t.kv.v + (j0 / V_STEP) * t.kv.v_stride;
  const i64 columns = whole_columns(t.x->a->hdim_v), steps = (n + V_STEP - 1) / V_STEP, all = ceil_div(upper, V_STEP);
  const bool first = !t.started;
  pad_weights(t.p, n);
  values(v, t.kv.v_stride, t.p, UPPER ? all : steps, t.o, columns, t.shrink, first);
#if UPPER
  if (all < steps)
    upper_values(v + all * t.kv.v_stride, t.kv.v_stride, t.p + all * BQ + BQ / 2, steps - all, t.o + BQ / 2, columns, ONES.of, false);
#endif
  t.started = true;
  if (FAULT_LOW_PRECISION_ACC)
    for (i64 e = 0; e < columns * BQ; ++e) {
      LOW low;
      from_float(&low, t.o[e]);
      t.o[e] = to_float(low);
    }
}

static void block(Tile& t, i64 j0, i64 j1, bool last) {
  const i64 partial = first_partial(t, j0, j1), upper = first_upper(t, partial, j1);
  float unused[BQ], *p = t.p + (partial - j0) * BQ;
  clear_peak(t);
  if (by_key(*t.x->a)) {
    const FmhaCpuArgs& a = *t.x->a;
    const i64 hk = kv_head(a, t.h);
    for (i64 j = j0; j < j1; ++j) {
      t.k_factor[j - j0] = key_factor(a, a.k_scale, t.b, hk, j);
      t.v_factor[j - j0] = key_factor(a, a.v_scale, t.b, hk, j);
    }
  }
  i64 raw = 0;  // keys whose scores are capped with the exponent
  if (!t.scaled.featured || (t.capped.late && partial > j0)) {
    score_block(t, j0, partial, t.p, t.peak);
    if (t.scaled.featured) {
      raw = partial - j0;
      cap_peak(t);
    }
  } else {
    score_block(t, j0, partial, t.p, unused);
    feature_block(t, j0, partial, t.p, t.peak);
  }
  score_hidden(t, partial, upper, j1, p);
  if (t.scaled.featured) feature_block(t, partial, j1, p, unused);
  mask_block(t, partial, j1, p);
  raise_top(t);
  weigh_block(t, raw, j1 - j0, last);
  if (t.x->a->dropout_threshold) drop_block(t, j0, j1);
  if (FAULT_STALE_MAX)
    for (int z = 0; z < NZ; ++z) vstore(t.shrink + z * NL, vset(1));
  value_block(t, j0, upper - j0, j1 - j0);
}

static Sweep sweep_of(const FmhaCpuArgs& a, i64 lo, i64 hi, bool final) {
  if (lo >= hi) return {hi, hi, hi, 0, final};
  const i64 most = a.block_keys > 0 ? min64(BC, a.block_keys) : BC, blocks = ceil_div(hi - lo, most);
  return {lo, lo, hi, ceil_div(ceil_div(hi - lo, blocks), RS) * RS, final};
}

// Takes the next block of keys; false if there is none left.
static bool advance(Tile& t) {
  const Flush tiny;
  if (t.now.j >= t.now.hi) t.now = t.then, t.then.j = t.then.hi;
  Sweep& w = t.now;
  if (w.j >= w.hi) return false;
  const i64 j = w.j;
  i64 end = min64(j + w.step, w.hi);
  w.j += w.step;
  if (FAULT_TILE_SKIPPED && j == w.lo + w.step) return true;
  if (FAULT_TILE_SKIPPED && w.lo + w.step >= w.hi) end = j + max64(1, (end - j) / 2);
  block(t, j, end, w.final && w.j >= w.hi);
  return true;
}

static void finish(Tile& t) {
  const FmhaCpuArgs& a = *t.x->a;
  if (!t.started)
    for (i64 e = 0; e < a.hdim_v * BQ; ++e) t.o[e] = 0;
  float bad[BQ], all_bad = 0;
  for (int z = 0; z < NZ; ++z) {
    const i64 rows = clamp64(t.rows - z * NL, 0, NL);
    if (!rows) break;
    const vf sum = vload(t.sum + z * NL), none = sum * vset(0);  // 0, or NaN where the sum is not finite
    const vf factor = vpick(vabove(sum, vset(0)), vset(a.keep_scale * t.scaled.values) / sum, none);
    vf found = none;
    T* out = o_row(a, t.s, t.b, t.h, t.i0 + z * NL);
    for (i64 d = 0; d < a.hdim_v; d += NL)
      transpose_out(out + d, a.o_row_stride, t.o + d * BQ + z * NL, factor, rows, min64(NL, a.hdim_v - d), found);
    vstore(bad + z * NL, found);
    all_bad += vsum(found);
  }
  if (a.lse)
    for (i64 n = 0; n < t.rows; ++n) *lse_at(a, t.s, t.b, t.h, t.i0 + n) = lse_of(t.top[n], t.sum[n]);
  if (all_bad != 0)
    for (i64 n = 0; n < t.rows; ++n)
      if (bad[n] != 0) exact_row(*t.x, t.b, t.h, t.i0 + n);
  if (FAULT_NAN_ROW && t.b == a.batch - 1 && t.h == a.heads - 1 && t.i0 + t.rows == t.s.nq)
    for (i64 d = 0; d < a.hdim_v; ++d) from_float(o_row(a, t.s, t.b, t.h, t.s.nq - 1) + d, __builtin_nanf(""));
}

// A tile of which no key was taken yet: rows [i0, i0 + BQ) of head h of sequence b.
static void begin(Tile& t, const Context& x, const KeysValues& kv, i64 b, i64 h, i64 i0, float* own, float* shared) {
  const FmhaCpuArgs& a = *x.a;
  t.q = own;
  t.o = t.q + BQ * whole_columns(a.hdim);
  t.p = shared;
  t.bias = t.p + BQ * BC;
  t.k_tail = t.bias + BQ * NL;
  t.x = &x;
  t.kv = kv;
  t.s = sequence_of(x, b);
  t.b = b, t.h = h, t.i0 = i0;
  t.rows = min64(BQ, t.s.nq - i0);
  t.down = down_of(a, b, h);
  t.started = false;
  t.ahead = t.s.nk * (a.hdim + a.hdim_v) * (i64)sizeof(KEY) > FAR_BYTES ? ASKED : 0;
  t.scaled = scaled_of(x, b, h, i0);
  t.capped = capped_of(t.scaled, a);
  const QT* q = q_row(a, t.s, b, h, i0);
#if BYTES_Q
  ROW* wide = (ROW*)(t.k_tail + RS * key_width(a.hdim));
  const i64 stride = key_copy_stride(a.hdim);
  const Widener by = widener_of(x.queries);
  for (i64 n = 0; n < t.rows; ++n) widen(by, wide + n * stride, q + n * a.q_row_stride, a.hdim);
  pack_queries(t.q, wide, stride, t.rows, a.hdim, t.scaled.flip);
#else
  pack_queries(t.q, q, a.q_row_stride, t.rows, a.hdim, t.scaled.flip);
#endif
  pad_queries(t.q, a.hdim);
  float top, sum;
  start_row(x, h, top, sum);
  for (int z = 0; z < NZ; ++z) {
    vstore(t.top + z * NL, vset(top));
    vstore(t.sum + z * NL, vset(sum));
  }
  const Span span = span_of(x, t.s, i0, i0 + t.rows - 1);
  // Paired values start at even keys: the mask hides the one before.
  const i64 lo = span.lo / V_STEP * V_STEP;
  const bool joined = span.head >= lo;
  t.now = sweep_of(a, 0, joined ? 0 : span.head, span.lo >= span.hi);
  t.then = sweep_of(a, joined ? 0 : lo, span.hi, true);
}

// Rows [i0, i1) of head h of sequence b, in tiles that take turns at the blocks of keys. fresh: this core has not read K and V yet.
static void attend(const Context& x, const KeysValues& kv, i64 b, i64 h, i64 i0, i64 i1, float* scratch, bool fresh) {
  const FmhaCpuArgs& a = *x.a;
  const i64 step = tile_floats(a.hdim, a.hdim_v), head = (i64)(sizeof(Tile) / sizeof(float) + 63) / 64 * 64;
  float* first = scratch + shared_floats(a.hdim);
  float* at = first;
  for (i64 i = i0; i < i1; i += BQ, at += step) {
    Tile& t = *(Tile*)at;
    begin(t, x, kv, b, h, i, at + head, scratch);
    if (i > i0)
      t.ahead = 0;  // the first one has asked
    else if (fresh && !TILES && t.s.nk > 2 * ASKED)  // matrix tiles have no time to ask: they take 4 % longer
      t.ahead = ASKED;
  }
  for (bool more = true; more;) {
    more = false;
    for (float* tile = first; tile < at; tile += step) more |= advance(*(Tile*)tile);
  }
  for (float* tile = first; tile < at; tile += step) finish(*(Tile*)tile);
}
