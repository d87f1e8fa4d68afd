// ALiBi in matrix tiles, without bias and softcap: a tile of scores begins with the distances' part instead of zeros, so that no score
// is touched for it. Where all keys of a block are on one side of the diagonal, -slope |i - j| is a term of the key, which all
// queries share, and one of the query, which joins the floor. Both are 0 next to the diagonal, where weights matter.
enum { SLOPE_ROWS = BC + RS, SLOPE_REACH = BC + BQ + RS, SLOPE_FLOATS = (SLOPE_ROWS * TILE_ROWS + 2 * SLOPE_REACH + 63) / 64 * 64 };

struct Sloped {
  bool late;
  float down;  // minus the slope, in units of raw scores
  float *keys, *hill;  // where the distance is 0: rows of equal numbers, by distance; single numbers, by i - j
};

INLINE Sloped sloped_of(const Scaled& s, bool sink, float down, float* room) {
  const Finish& f = s.finish;
  Sloped t;
  // Rows behind the last key may raise a maximum by RS slopes. Scales that change between the tiles of a head have no table in common.
  t.late = !BYTES && sink && f.alibi && !f.bias && !(f.cap > 0) && down <= 0 && down >= -1 && f.before > 1e-4f && f.before < 1e4f;
  t.down = down / f.before;
  t.keys = room + RS * TILE_ROWS;
  t.hill = room + SLOPE_ROWS * TILE_ROWS + SLOPE_REACH;
  return t;
}

static void fill_slopes(const Sloped& t) {
  for (i64 n = -RS; n < BC; ++n) vstore(t.keys + n * TILE_ROWS, vset((float)max64(n, 0) * t.down));
  for (i64 n = -SLOPE_REACH; n < SLOPE_REACH; n += NL) vstore(t.hill + n, vabs(viota() + vset((float)n)) * vset(t.down));
}

// How the scores of keys [j0, j1) begin, of queries whose diagonal is at key `diagonal`; what is to be added to a query's scores.
static Start slope_block(const Sloped& t, i64 diagonal, i64 j0, i64 j1, float* base) {
  const bool left = j1 - 1 <= diagonal, right = j0 >= diagonal + BQ - 1;
  const float sign = left ? t.down : right ? -t.down : 0;
  const i64 from = diagonal - (left ? j1 - 1 : j0);
  for (int z = 0; z < NZ; ++z) vstore(base + z * NL, (viota() + vset((float)(from + z * NL))) * vset(sign));
  if (left) return {t.keys + (j1 - 1 - j0) * TILE_ROWS, -TILE_ROWS, 0, j0};
  if (right) return {t.keys, TILE_ROWS, 0, j0};
  return {t.hill + from, -1, 1, j0};
}
