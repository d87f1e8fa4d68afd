// Products in matrix tiles. Tiles 0 to 3 are 32 x 32 sums, 4 and 5 rows of K or of transposed V, 6 and 7 columns of
// queries or weights: every tile that is loaded is used twice.
static_assert(RS == 2 * TILE_ROWS && BQ % 32 == 0 && BC % TILE_KEYS == 0, "whole tiles");
const i64 LANE_BYTES = BQ * (i64)sizeof(float);

// Numbers with which the sums of scores begin; zeros if there are none. Distances between keys and between queries in floats.
struct Start {
  const float* at;  // of key j and the first query
  i64 key, query, j;
};

// S of RS keys from j on and the packed queries, and the maximum of each lane.
static void QK_FULL(const char* k, const i64 stride, const float* q, i64 hdim, float* s, float* top, const Start& start, i64 j) {
  const i64 end = key_width(hdim) * (i64)sizeof(bf16);
  tile_fence();
  for (i64 lane = 0; lane < BQ; lane += 32) {
    const float* at = q + lane;
    if (start.at) {
      const float *upper = start.at + (j - start.j) * start.key + lane * start.query, *lower = upper + TILE_ROWS * start.key;
      const i64 step = start.key * (i64)sizeof(float);
      tile_load(0, upper, step);
      tile_load(1, upper + 16 * start.query, step);
      tile_load(2, lower, step);
      tile_load(3, lower + 16 * start.query, step);
    } else {
      tile_zero(0);
      tile_zero(1);
      tile_zero(2);
      tile_zero(3);
    }
    for (i64 t = 0; t < end; t += TILE_BYTES, at += TILE_ROWS * BQ) {
      tile_load(4, k + t, stride);
      tile_load(6, at, LANE_BYTES);
      tile_load(7, at + 16, LANE_BYTES);
      tile_load(5, k + TILE_ROWS * stride + t, stride);
      tile_dot(0, 4, 6);
      tile_dot(1, 4, 7);
      tile_dot(2, 5, 6);
      tile_dot(3, 5, 7);
    }
    float* out = s + lane;
    tile_store(0, out, LANE_BYTES);
    tile_store(1, out + 16, LANE_BYTES);
    tile_store(2, out + TILE_ROWS * BQ, LANE_BYTES);
    tile_store(3, out + TILE_ROWS * BQ + 16, LANE_BYTES);
  }
  for (i64 lane = 0; lane < BQ; lane += NL) {  // four maxima: one would wait for itself
    const float* at = s + lane;
    vf a = vload(top + lane), b = vset(NEG_INF), c = b, d = b;
    for (i64 r = 0; r < RS; r += 4, at += 4 * BQ) {
      a = vmax(vload(at), a), b = vmax(vload(at + BQ), b);
      c = vmax(vload(at + 2 * BQ), c), d = vmax(vload(at + 3 * BQ), d);
    }
    vstore(top + lane, vmax(vmax(b, c), vmax(d, a)));
  }
}

// O of up to 32 columns and 32 queries: rescaled by shrink unless that is null, and V times the weights added.
template <bool WIDE>
static void values_of(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink, bool first) {
  if (first) {
    tile_zero(0);
    tile_zero(1);
    if (WIDE) {
      tile_zero(2);
      tile_zero(3);
    }
  } else {
    for (i64 lane = 0; shrink && lane < 32; lane += NL) {
      const vf factor = vload(shrink + lane);
      for (i64 r = 0; r < (WIDE ? 32 : 16); ++r) vstore(o + r * BQ + lane, vload(o + r * BQ + lane) * factor);
    }
    tile_fence();
    tile_load(0, o, LANE_BYTES);
    tile_load(1, o + 16, LANE_BYTES);
    if (WIDE) {
      tile_load(2, o + TILE_ROWS * BQ, LANE_BYTES);
      tile_load(3, o + TILE_ROWS * BQ + 16, LANE_BYTES);
    }
  }
  for (i64 n = 0; n < steps; ++n, v += stride, p += TILE_ROWS * BQ) {
    tile_load(4, v, TILE_BYTES);
    tile_load(6, p, LANE_BYTES);
    tile_load(7, p + 16, LANE_BYTES);
    tile_dot(0, 4, 6);
    tile_dot(1, 4, 7);
    if (WIDE) {
      tile_load(5, v + TILE_ROWS * TILE_BYTES / 4, TILE_BYTES);
      tile_dot(2, 5, 6);
      tile_dot(3, 5, 7);
    }
  }
  tile_store(0, o, LANE_BYTES);
  tile_store(1, o + 16, LANE_BYTES);
  if (WIDE) {
    tile_store(2, o + TILE_ROWS * BQ, LANE_BYTES);
    tile_store(3, o + TILE_ROWS * BQ + 16, LANE_BYTES);
  }
}

INLINE bool all_ones(const float* x) { return vsum(vabs(vload(x) - vset(1))) == 0; }

static void values(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, i64 columns, const float* shrink,
                   bool first) {
  const float* changed[BQ / 32];  // what has kept its maximum is not scaled
  for (i64 lane = 0; lane < BQ; lane += 32)
    changed[lane / 32] = all_ones(shrink + lane) && all_ones(shrink + lane + NL) ? nullptr : shrink + lane;
  tile_fence();
  for (i64 d = 0; d < columns; d += 32)
    for (i64 lane = 0; lane < BQ; lane += 32)
      (columns - d > TILE_ROWS ? values_of<true> : values_of<false>)(v + d * TILE_ROWS, stride, p + lane, steps,
                                                                     o + d * BQ + lane, changed[lane / 32], first);
}
