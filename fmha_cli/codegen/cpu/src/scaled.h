// How raw scores of one row become exponents; kernels of 8-bit inputs have factors of Q and K here.
struct Scaled {
  float unit;      // of the scores that weights are made of
  float exponent;  // the same in exponents of 2
  uint32_t flip;   // sign bit, moved into Q
  bool featured;   // those scores are finished, and not raw
  float values;    // factor of O
  Finish finish;
};

INLINE Scaled scaled_of(const Context& x, i64, i64 h, i64) {
  if (x.featured || !holds_sink(*x.a, h, x.unit)) return {1, LOG2E, 0, true, 1, finish_of(x)};
  return {x.unit, x.unit * LOG2E, x.q_flip, false, 1, finish_of(x)};
}
INLINE bool by_key(const FmhaCpuArgs&) { return false; }
INLINE float key_factor(const FmhaCpuArgs&, const float*, i64, i64, i64) { return 1; }
INLINE float query_value(const Context&, QT x) { return to_float(x); }
INLINE float key_value(const Context&, KT x) { return to_float(x); }
