// A slab: neighbouring tiles of one query head, small enough to stay in a cache while blocks of keys pass by.
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

// One chunk of the keys against a slab. part: dQ of the slab's rows, in fp32, padded.
static void attend_chunk(const Head& head, const Group& g, const Blocks& blocks, i64 chunk, const Slab& slab, float* part,
                         float* room) {
  const Flush tiny;
  const FmhaCpuArgs& a = *head.x->a;
  const i64 from = chunk_start(blocks, chunk), end = chunk_start(blocks, chunk + 1), tile_floats = BQ * padded(a.hdim);
  const Scores scores = scores_at(room);
  float* bias = room + scores_floats();
  for (i64 n = 0; n < slab.tiles; ++n)
    if (tile_sees(head, slab.i0 + n * BQ, from, end)) memset(part + n * tile_floats, 0, (size_t)tile_floats * sizeof(float));
  for (i64 j = from; j < end; j += blocks.step)
    for (i64 n = 0; n < slab.tiles; ++n) {
      const i64 i0 = slab.i0 + n * BQ;
      const Rows rows = rows_at(a, slab.rows + n * slab.row_step);
      Tile t = tile_at(head, i0, rows.q, rows.dout, bias);
      const Ranges r = ranges_of(head, i0, t.rows, j, min64(j + blocks.step, end));
      for (i64 m = 0; m < r.count; ++m) add_patch(t, rows, g, scores, r.from[m], r.to[m], part + n * tile_floats);
    }
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

// dQ of a tile from its sum; a tile that sees nothing has none.
static void finish_tile(const Head& head, i64 hk, i64 i0, float* sum, bool any) {
  if (!any) memset(sum, 0, (size_t)(BQ * padded(head.x->a->hdim)) * sizeof(float));
  finish_rows(head, hk, i0, sum);
}
