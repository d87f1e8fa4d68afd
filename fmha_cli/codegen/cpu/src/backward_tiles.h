// Operands of the backward products in matrix tiles: words and steps are those of pairs, 16 of them to a tile. Rows of words have
// zeros up to a whole tile, and dQ, which is transposed, reads K in tiles of 16 columns and 32 keys.
enum { STEP = 2, GROUP = TILE_ROWS, ONE_FORM = 0 };  // rows in a step; steps in a tile; whether words and steps look the same

INLINE i64 query_columns(i64 d) { return ceil_div(d, TILE_KEYS) * TILE_ROWS; }
