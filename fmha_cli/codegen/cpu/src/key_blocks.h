// Scores of n keys to weights, in place (paired weights take half the room), and the sums. Keys [from, end) are not capped yet.
static void weigh_block(Tile& t, i64 from, i64 end, i64 n, bool last) {
  if (FAULT_V_ROWS_SWAPPED && n > 1)
    for (int lane = 0; lane < BQ; ++lane) {
      float keep = t.p[lane];
      t.p[lane] = t.p[BQ + lane];
      t.p[BQ + lane] = keep;
    }
  const bool kept = FAULT_ROW_SUM_SHORT && last;
  const float* shrink = t.shrink;
  const auto weigh_keys = [&](i64 j, i64 keys, const auto& of) {
    if (!keys) return;
    weigh(t.p + j * BQ, t.p + j / (PAIRS ? 2 : 1) * BQ, keys, of, t.floor, t.sum, shrink, kept,
          by_key(*t.x->a) ? t.v_factor + j : nullptr);
    shrink = ONES.of;
  };
  const auto weigh_plain = [&](i64 j, i64 keys) {
    const vf factor = vset(t.scaled.exponent);
#if TILES
    if (t.fused) return weigh_keys(j, keys, Fused{factor});
#endif
    weigh_keys(j, keys, Linear{factor});
  };
  weigh_plain(0, from);
  if (from < end && are_near(t.capped, t.high, t.low)) {
    weigh_keys(from, end - from, Near{t.capped.near});
  } else if (from < end) {
    weigh_capped(t.capped.by, t.p + from * BQ, t.p + from / (PAIRS ? 2 : 1) * BQ, end - from, t.floor, t.sum, shrink, kept);
    shrink = ONES.of;
  }
  weigh_plain(end, n - end);
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
  const Parts at = parts_of(t, j0, j1);
  const i64 whole = at.whole, partial = at.partial;
  float unused[BQ], *seen = t.p + (whole - j0) * BQ, *rest = t.p + (partial - j0) * BQ;
  clear_peak(t);
#if TILES
  if (t.sloped.late) t.start = slope_block(t.sloped, t.i0 + t.s.delta, j0, j1, t.base);
#endif
  if (by_key(*t.x->a)) {
    const FmhaCpuArgs& a = *t.x->a;
    const i64 hk = kv_head(a, t.h);
    for (i64 j = j0; j < j1; ++j) {
      t.k_factor[j - j0] = key_factor(a, a.k_scale, t.b, hk, j);
      t.v_factor[j - j0] = key_factor(a, a.v_scale, t.b, hk, j);
    }
  }
  i64 end = whole;  // keys from `whole` to here are capped with the exponent
  if (t.capped.late && whole < partial) {
    end = partial;
    for (int z = 0; z < NZ; ++z) vstore(t.low + z * NL, vset(-NEG_INF));
    score_block(t, whole, partial, seen, t.peak, t.low);
    cap_peak(t);
  } else if (t.scaled.featured) {
    score_block(t, whole, partial, seen, unused);
    feature_block(t, whole, partial, seen, t.peak);
  } else {
    score_block(t, whole, partial, seen, t.peak);
  }
  score_hidden(t, j0, at, j1);
  if (t.scaled.featured) {
    feature_block(t, j0, whole, t.p, unused);
    feature_block(t, partial, j1, rest, unused);
  }
  mask_block(t, j0, whole, t.p);
  mask_block(t, partial, j1, rest);
  raise_top(t);
  weigh_block(t, whole - j0, end - j0, j1 - j0, last);
  if (t.x->a->dropout_threshold) drop_block(t, j0, j1);
  if (FAULT_STALE_MAX)
    for (int z = 0; z < NZ; ++z) vstore(t.shrink + z * NL, vset(1));
  value_block(t, j0, at.upper - j0, j1 - j0);
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
    for (i64 n = 0; n < t.rows; ++n) *lse_at(a, t.s, t.b, t.h, t.i0 + n) = lse_of(t.top[n], t.scaled.unit, t.sum[n]);
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
#if TILES
  t.sloped = sloped_of(t.scaled, holds_sink(a, h, t.scaled.finish.before), t.down, shared + shared_floats(a.hdim) - SLOPE_FLOATS);
  t.start = {};
  for (int z = 0; z < NZ; ++z) vstore(t.base + z * NL, vset(0));
  if (t.sloped.late) t.scaled.featured = false, t.scaled.unit = t.scaled.finish.before, t.scaled.exponent = t.scaled.unit * LOG2E;
#endif
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
  start_row(x, h, t.scaled.unit, top, sum);
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
#if TILES
    if (i == i0 && t.sloped.late) fill_slopes(t.sloped);
#endif
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
