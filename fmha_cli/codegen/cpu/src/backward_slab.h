// A slab: neighbouring tiles of one query head, small enough to stay in a cache while blocks of keys pass by. OWN_TILES at most
// where a thread has a group for itself, SHARED_TILES where all share it.
struct Slab {
  i64 i0, tiles;
  float* rows;   // rows_floats for each tile
  i64 row_step;
};

// Keys of a sequence in blocks of about equal size, and blocks in chunks. dQ of a row is the sum over the chunks, in their
// order. Blocks and chunks follow from the number of keys alone, so that no number of threads changes a result.
struct Blocks {
  i64 keys, step, count, chunks;
};
enum { MAX_CHUNKS = 32 };

INLINE Blocks blocks_of(i64 keys) {
  const i64 count = max64(1, ceil_div(keys, BC));
  const i64 step = max64(PRODUCT_ROWS, whole_products(ceil_div(keys, count)));
  const i64 used = max64(1, ceil_div(keys, step));
  return {keys, step, used, min64(used, MAX_CHUNKS)};
}
INLINE i64 chunk_start(const Blocks& b, i64 chunk) { return min64(b.keys, b.count * chunk / b.chunks * b.step); }

INLINE i64 tiles_of(i64 rows) { return ceil_div(rows, BQ); }
INLINE bool tile_sees(const Head& head, i64 i0, i64 from, i64 to) {
  return ranges_of(head, i0, min64(BQ, head.s.nq - i0), from, to).count > 0;
}

// Adds a chunk's part of a tile's dQ to its sum, if the tile sees the chunk; the first part that does is the sum.
static void add_part(const Head& head, const Blocks& blocks, i64 i0, i64 chunk, const float* part, float* sum, bool& any) {
  if (!tile_sees(head, i0, chunk_start(blocks, chunk), chunk_start(blocks, chunk + 1))) return;
  if (FAULT_DQ_CHUNK_LOST && chunk && chunk == blocks.chunks - 1) return;
  const i64 floats = BQ * padded(head.x->a->hdim);
  if (any)
    for (i64 e = 0; e < floats; e += NL) vstore(sum + e, vload(sum + e) + vload(part + e));
  else if (sum != part)
    memcpy(sum, part, (size_t)floats * sizeof(float));
  any = true;
}

// One chunk of the keys against a slab. part: its dQ of the slab's rows, in fp32, padded. Where `sum` is given, the part is added to
// it, as `any` says; a chunk that is one patch has no need of a part of its own then.
static void attend_chunk(const Head& head, const Group& g, const Blocks& blocks, i64 chunk, const Slab& slab, float* part,
                         float* room, float* sum, bool* any) {
  const Flush tiny;
  const FmhaCpuArgs& a = *head.x->a;
  const i64 from = chunk_start(blocks, chunk), end = chunk_start(blocks, chunk + 1), tile_floats = BQ * padded(a.hdim);
  const Scores scores = scores_at(room);
  const bool alone = PATCH_SUMS && !FAULT_DQ_CHUNK_LOST && sum && from + blocks.step >= end;
  float* bias = room + scores_floats();
  bool held[SHARED_TILES] = {}, added[SHARED_TILES] = {};
  for (i64 j = from; j < end; j += blocks.step)
    for (i64 n = 0; n < slab.tiles; ++n) {
      const i64 i0 = slab.i0 + n * BQ, at = n * tile_floats;
      const Rows rows = rows_at(a, slab.rows + n * slab.row_step);
      Tile t = tile_at(head, i0, rows.q, rows.dout, bias);
      const Ranges r = ranges_of(head, i0, t.rows, j, min64(j + blocks.step, end));
      added[n] = alone && r.count == 1;
      bool& started = added[n] ? any[n] : held[n];
      for (i64 m = 0; m < r.count; ++m, started = true)
        add_patch(t, rows, g, scores, r.from[m], r.to[m], (added[n] ? sum : part) + at, !started);
    }
  for (i64 n = 0; sum && n < slab.tiles; ++n)
    if (!added[n]) add_part(head, blocks, slab.i0 + n * BQ, chunk, part + n * tile_floats, sum + n * tile_floats, any[n]);
}

// dQ of a tile from its sum; a tile that sees nothing has none.
static void finish_tile(const Head& head, i64 hk, i64 i0, float* sum, bool any) {
  if (!any) memset(sum, 0, (size_t)(BQ * padded(head.x->a->hdim)) * sizeof(float));
  finish_rows(head, hk, i0, sum);
}
