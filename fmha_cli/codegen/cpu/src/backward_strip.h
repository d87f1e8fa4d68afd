// A strip: ROWS keys and a tile of queries. Its raw products S = K Q and dP = V dO become weights P and gradients dS.
struct KeyStrip {  // PRODUCT_ROWS rows of words, with a stride in bytes
  const char* rows;
  i64 stride;
};

struct Tile {
  Head head;
  i64 i0, rows;          // BQ rows from i0, of which so many exist
  const float *q, *dout;  // [word][BQ]
  Finish f;
  bool featured;  // weights are made of finished scores, not of raw ones
  float exponent, down;
  float* bias;   // [NL][BQ], of keys bias_key .. bias_key + NL - 1
  i64 bias_key;  // -1: none yet
};

INLINE Tile tile_at(const Head& head, i64 i0, const float* q, const float* dout, float* bias) {
  const Context& x = *head.x;
  const i64 rows = min64(BQ, head.s.nq - i0);
  const Finish f = finish_of(x);
  const bool featured = f.cap > 0 || f.bias || f.alibi || !is_unit(x.scale) || !holds_sink(*x.a, head.h, vabs(x.scale));
  return {head, i0, rows, q, dout, f, featured, featured ? LOG2E : x.scale * LOG2E, down_of(*x.a, head.b, head.h), bias, -1};
}

// Rows [from, to) of the tile that see key j.
INLINE void rows_that_see(const Tile& t, i64 j, i64& from, i64& to) {
  const Context& x = *t.head.x;
  const i64 base = t.i0 + t.head.s.delta;
  from = x.has_right ? clamp64(j - base - x.right, 0, t.rows) : 0;
  to = x.has_left && j >= x.a->sink ? clamp64(j - base + x.left + 1, 0, t.rows) : t.rows;
  if (j >= t.head.s.keys) to = 0;
}
// Whether every row of the tile exists and sees all keys of the strip.
INLINE bool sees_all(const Tile& t, i64 j) {
  i64 from, to, from_last, to_last;
  rows_that_see(t, j, from, to);
  rows_that_see(t, j + ROWS - 1, from_last, to_last);
  return t.rows == BQ && from_last == 0 && to == BQ && to_last == BQ;
}

static void load_bias(Tile& t, i64 j) {
  const FmhaCpuArgs& a = *t.head.x->a;
  t.bias_key = j;
  transpose_in<false>(t.bias, bias_row(a, t.head.b, t.head.h, t.i0) + j, a.bias_row_stride, t.rows,
                      clamp64(t.head.s.nk - j, 0, NL));
}

// 1 - tanh(x)^2 as 4 e / (1 + e)^2 with e = exp(-2 |x|): where tanh is near 1, nothing is left of its square.
INLINE vf tanh_slope(vf x) {
  if (FAULT_SLOPE_MISSING) return vset(1);
  const vf e = vexp2(vabs(x) * vset(-2 * LOG2E)), d = e + vset(1);
  return vquotient(e * vset(4), d * d);
}

// Lanes whose bias is -inf: NaN is not.
INLINE vm hides(vf bias) { return vabove(vset(-3.4028234663852886e38f), bias); }

// The score that a weight is made of; slope becomes the derivative of the score by the scaled product.
template <bool FEATURED>
INLINE vf score_of(const Tile& t, vf raw, const float* bias, vf distance, vf& slope) {
  if (!FEATURED) return raw;
  vf s = raw * vset(t.f.before);
  if (t.f.cap > 0) {
    slope = tanh_slope(s);
    s = vtanh(s) * vset(t.f.cap);
  }
  if (t.f.bias) s = s + vload(bias);
  if (t.f.alibi) s = vfma(vset(t.down), vabs(distance), s);
  return s;
}

// What stands between raw products and gradients, for NL queries of one key.
struct Weighed {
  vf used, ds, dbias;  // weight after dropout, gradient of the scaled product, gradient of the finished score
};

INLINE vf drop(const Tile& t, vm keep, vf x) {
  if (FAULT_DROPOUT_INVERTED && t.head.x->a->dropout_threshold) return vpick(keep, vset(0), x);
  return vpick(keep, x, vset(0));
}

// HIDES: keys whose bias is -inf are looked for. A row that they spoil is computed again, but an element of dBias is not.
template <bool FEATURED, bool CARE, bool HIDES>
INLINE Weighed weigh(const Tile& t, vf raw, vf dp, const float* bias, vf distance, vf top, vf base, vf delta, vm seen, vm keep) {
  const float factor = t.head.x->a->keep_scale;
  vf slope = vset(1), s = score_of<FEATURED>(t, raw, bias, distance, slope) - top, p = vexp2(vfma(s, vset(t.exponent), base));
  if (HIDES && !FAULT_BIASED_KEY) p = vpick(hides(vload(bias)), vset(0), p);  // whatever the score and the LSE are
  Weighed w;
  if (CARE) {
    p = vpick(seen, p, vset(0));
    w.used = drop(t, keep, p);
    dp = drop(t, keep, dp * vset(factor));
  } else {
    w.used = p;
  }
  // A weight of 0 has no gradient, whatever dP is; NaN stays.
  w.dbias = p * (dp - delta);
  if (!FAULT_ZERO_WEIGHT) w.dbias = vpick(vabove(p, vset(0)), w.dbias, p);
  w.ds = FEATURED ? w.dbias * slope : w.dbias;
  return w;
}

// Which weights of keys j .. j + 3 and NL queries dropout keeps. Masks leave the function: words would go through the stack.
NOINLINE void draw_kept(const Tile& t, i64 j, i64 q, vm keep[4]) {
  const FmhaCpuArgs& a = *t.head.x->a;
  vu c[4] = {vu{} + (uint32_t)(j >> 2), vlanes() + (uint32_t)(t.i0 + q), vu{} + (uint32_t)(t.head.b * a.heads + t.head.h),
             vu{} + dropout_offset(a)};
  philox(c, a.seed);
  for (int r = 0; r < 4; ++r) keep[r] = vreaches(c[r], a.dropout_threshold);
}

// Keys j .. j + ROWS - 1 and queries [q0, q0 + STRIP). CARE: some are hidden, or there is dropout.
template <bool FEATURED, bool CARE, class Sink>
static void weigh_strip(const Tile& t, i64 j, i64 q0, const float* raw, const float* dp, Sink& sink) {
  const FmhaCpuArgs& a = *t.head.x->a;
  const float* bias = t.bias + (j - t.bias_key) * BQ;
  i64 from[ROWS] = {}, to[ROWS] = {};
  if (CARE)
    for (int r = 0; r < ROWS; ++r) rows_that_see(t, j + r, from[r], to[r]);
  for (i64 q = q0; q < q0 + STRIP; q += NL, raw += NL, dp += NL) {
    const vf top = vload(t.head.top + t.i0 + q), base = vload(t.head.base + t.i0 + q), delta = vload(t.head.delta + t.i0 + q);
    const vf distance = viota() + vset((float)(t.i0 + t.head.s.delta + q - j));
    const vm all = vrange(0, NL);
    vm seen[ROWS], keep[ROWS];
    for (int r = 0; r < ROWS; ++r) {
      seen[r] = CARE ? vrange(clamp64(from[r] - q, 0, NL), clamp64(to[r] - q, 0, NL)) : all;
      keep[r] = all;
    }
    if (CARE && a.dropout_threshold) draw_kept(t, j, q, keep);
    for (int r = 0; r < ROWS; r += 2) {
      const vf first = distance - vset((float)r), second = first - vset(1);
      const Weighed x = weigh<FEATURED, CARE, (bool)Sink::HIDES>(t, vload(raw + r * STRIP), vload(dp + r * STRIP), bias + r * BQ + q, first, top,
                                          base, delta, seen[r], keep[r]);
      const Weighed y = weigh<FEATURED, CARE, (bool)Sink::HIDES>(t, vload(raw + (r + 1) * STRIP), vload(dp + (r + 1) * STRIP),
                                          bias + (r + 1) * BQ + q, second, top, base, delta, seen[r + 1], keep[r + 1]);
      sink.take(j + r, q, x, y);
    }
  }
}

INLINE void need_bias(Tile& t, i64 j) {
  if (t.f.bias && j / NL * NL != t.bias_key) load_bias(t, j / NL * NL);
}

// Keys [j0, j1) against rows [q0, q1) of a tile; j0 starts a product, q0 a strip. ``keys`` has rows of K and V for whole products;
// ``sink`` weighs the raw products with those forms of ``weigh_strip`` that it needs, and takes the results. Q and dO of a tile may
// not fit the first-level cache together, so several strips meet one of them before the other.
enum { STRIPS = PRODUCT_ROWS == ROWS ? 6 : PRODUCT_ROWS / ROWS };

template <class Keys, class Sink>
static void weigh_keys(Tile& t, i64 j0, i64 j1, i64 q0, i64 q1, Keys& keys, Sink& sink) {
  const FmhaCpuArgs& a = *t.head.x->a;
  const i64 words = query_columns(a.hdim), words_v = query_columns(a.hdim_v);
  alignas(64) float raw[STRIPS][ROWS * STRIP], dp[STRIPS][ROWS * STRIP];
  for (i64 first = j0; first < j1; first += STRIPS * ROWS) {
    const i64 end = min64(first + STRIPS * ROWS, j1);
    for (i64 q = q0; q < q1; q += STRIP) {
      for (i64 j = first, n = 0; j < end; j += PRODUCT_ROWS, n += PRODUCT_ROWS / ROWS) {
        const KeyStrip k = keys.k(j);
        products(k.rows, k.stride, t.q + q, words, raw[n]);
      }
      for (i64 j = first, n = 0; j < end; j += PRODUCT_ROWS, n += PRODUCT_ROWS / ROWS) {
        const KeyStrip v = keys.v(j);
        products(v.rows, v.stride, t.dout + q, words_v, dp[n]);
      }
      for (i64 j = first, n = 0; j < end; j += ROWS, ++n) {
        need_bias(t, j);
        sink.weigh(t, j, q, raw[n], dp[n], a.dropout_threshold || !sees_all(t, j));
      }
    }
  }
}
