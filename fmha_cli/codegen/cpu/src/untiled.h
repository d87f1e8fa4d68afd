// Operands without matrix tiles: rows are as long as they are, and a thread needs no preparation.
INLINE i64 key_width(i64 hdim) { return hdim; }  // elements of a row of K that the score product reads
INLINE void pad_queries(float*, i64) {}  // zeros behind the last column
INLINE void pad_weights(float*, i64) {}  // zeros behind the last key of a block
INLINE bool tiles_permitted() { return true; }
INLINE void configure_tiles() {}
INLINE void release_tiles() {}
enum { SLOPE_FLOATS = 0 };
