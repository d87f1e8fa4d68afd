// Backward products in matrix tiles. Tiles 0 to 3 are 32 x 32 sums, 4 and 5 rows, 6 and 7 columns: every tile that is loaded is
// used twice.
static_assert(PRODUCT_ROWS == 2 * TILE_ROWS && STRIP % 32 == 0 && BC % PRODUCT_ROWS == 0, "whole tiles");
enum { SQUARE = 2 * TILE_ROWS };  // rows and columns of the sums

// Products of PRODUCT_ROWS rows of words, a stride in bytes apart, and packed rows of queries [word][BQ]: [key][STRIP].
NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {
  const i64 end = words * (i64)sizeof(float), row = STRIP * (i64)sizeof(float), query = BQ * (i64)sizeof(float);
  tile_fence();
  for (i64 lane = 0; lane < STRIP; lane += SQUARE) {
    const float* at = q + lane;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (i64 t = 0; t < end; t += TILE_BYTES, at += TILE_ROWS * BQ) {
      tile_load(4, k + t, stride);
      tile_load(6, at, query);
      tile_load(7, at + TILE_ROWS, query);
      tile_load(5, k + TILE_ROWS * stride + t, stride);
      tile_dot(0, 4, 6);
      tile_dot(1, 4, 7);
      tile_dot(2, 5, 6);
      tile_dot(3, 5, 7);
    }
    float* out = s + lane;
    tile_store(0, out, row);
    tile_store(1, out + TILE_ROWS, row);
    tile_store(2, out + TILE_ROWS * STRIP, row);
    tile_store(3, out + TILE_ROWS * STRIP + TILE_ROWS, row);
  }
}

// Sums of 32 rows and 16 columns, or 32, into tiles, and back.
template <bool WIDE>
INLINE void load_sums(const float* a, i64 row) {
  tile_load(0, a, row * (i64)sizeof(float));
  tile_load(2, a + TILE_ROWS * row, row * (i64)sizeof(float));
  if (WIDE) {
    tile_load(1, a + TILE_ROWS, row * (i64)sizeof(float));
    tile_load(3, a + TILE_ROWS * row + TILE_ROWS, row * (i64)sizeof(float));
  }
}
template <bool WIDE>
INLINE void store_sums(float* a, i64 row) {
  tile_store(0, a, row * (i64)sizeof(float));
  tile_store(2, a + TILE_ROWS * row, row * (i64)sizeof(float));
  if (WIDE) {
    tile_store(1, a + TILE_ROWS, row * (i64)sizeof(float));
    tile_store(3, a + TILE_ROWS * row + TILE_ROWS, row * (i64)sizeof(float));
  }
}

// Adds, to PRODUCT_ROWS rows of a gradient, the sum over steps of weights [row][step] times rows of x [step][column].
template <bool WIDE>
static void add_columns(const char* w, i64 w_row, const float* x, i64 x_step, i64 steps, float* a, i64 a_row) {
  load_sums<WIDE>(a, a_row);
  for (const char* end = w + steps * (i64)sizeof(float); w < end; w += TILE_BYTES, x += TILE_ROWS * x_step) {
    tile_load(4, w, w_row);
    tile_load(6, x, x_step * (i64)sizeof(float));
    tile_load(5, w + TILE_ROWS * w_row, w_row);
    tile_dot(0, 4, 6);
    tile_dot(2, 5, 6);
    if (WIDE) {
      tile_load(7, x + TILE_ROWS, x_step * (i64)sizeof(float));
      tile_dot(1, 4, 7);
      tile_dot(3, 5, 7);
    }
  }
  store_sums<WIDE>(a, a_row);
}
NOINLINE void add(const bf16* w, const float* x, i64 steps, float* a, i64 columns) {
  tile_fence();
  for (i64 c = 0; c < columns; c += SQUARE)
    (columns - c > TILE_ROWS ? add_columns<true> : add_columns<false>)((const char*)w, BQ * (i64)sizeof(bf16), x + c, columns,
                                                                       steps, a + c, columns);
}

// PRODUCT_ROWS keys that some of 32 queries see: their first tile of columns, and dS of the first query.
struct Seen {
  const float *k, *ds;
};
// Columns of dQ [column][BQ] of 32 queries: the sum over keys of K [column][key] times dS [key][query], or this added to what is
// there.
template <bool WIDE>
static void add_keys(const Seen* at, const Seen* end, i64 c, float* a, bool first) {
  alignas(64) float fresh[SQUARE * SQUARE];
  float* to = first ? a : fresh;
  const i64 row = first ? (i64)BQ : (i64)SQUARE, rows = (WIDE ? 2 : 1) * TILE_ROWS;
  tile_zero(0);
  tile_zero(1);
  if (WIDE) {
    tile_zero(2);
    tile_zero(3);
  }
  for (; at < end; ++at) {
    const float *k = at->k + c * NL, *ds = at->ds;
    tile_load(4, k, TILE_BYTES);
    tile_load(6, ds, BQ * (i64)sizeof(float));
    tile_load(7, ds + TILE_ROWS, BQ * (i64)sizeof(float));
    tile_dot(0, 4, 6);
    tile_dot(1, 4, 7);
    if (WIDE) {
      tile_load(5, k + TILE_ROWS * NL, TILE_BYTES);
      tile_dot(2, 5, 6);
      tile_dot(3, 5, 7);
    }
  }
  tile_store(0, to, row * (i64)sizeof(float));
  tile_store(1, to + TILE_ROWS, row * (i64)sizeof(float));
  if (WIDE) {
    tile_store(2, to + TILE_ROWS * row, row * (i64)sizeof(float));
    tile_store(3, to + TILE_ROWS * row + TILE_ROWS, row * (i64)sizeof(float));
  }
  if (first) return;
  for (i64 r = 0; r < rows; ++r, a += BQ)
    for (i64 n = 0; n < SQUARE; n += NL) vstore(a + n, vload(a + n) + vload(fresh + r * SQUARE + n));
}
