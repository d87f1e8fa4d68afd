// Operands of the backward products in pairs of bf16: a word is a pair of neighbouring columns, or of neighbouring
// rows; a step is two rows.
enum { STEP = 2, GROUP = 1, ONE_FORM = 0 };  // rows in a step; steps that belong together; whether rows of words and rows of steps look the same

INLINE vf vword(const char* p) { return vpair(load32(p)); }
INLINE i64 query_columns(i64 d) { return (d + 1) / 2; }
