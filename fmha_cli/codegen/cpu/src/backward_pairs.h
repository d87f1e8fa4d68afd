// Operands of the backward products in pairs of bf16: a word is a pair of neighbouring columns, or of neighbouring
// rows; a step is two rows.
enum { STEP = 2, GROUP = 1, ONE_FORM = 0 };  // rows in a step; steps that belong together; whether rows of words and rows of steps look the same

INLINE vf vword(const char* p) { return vpair(load32(p)); }
INLINE i64 query_columns(i64 d) { return (d + 1) / 2; }
// Gradients of the scores of two neighbouring keys, as a pair of keys.
INLINE void store_steps(float* at, i64, vf ds0, vf ds1) { vstore(at, vjoin(ds0, ds1)); }
