// How raw scores of one row become exponents; kernels of 8-bit inputs have factors of Q and K here.
struct Scaled {
  float exponent;  // factor of a finished score in the exponent of 2
  uint32_t flip;   // sign bit, moved into Q
  bool featured;   // scores need more than the exponent
  float values;    // factor of O
  Finish finish;
};

INLINE Scaled scaled_of(const Context& x, i64, i64, i64) { return {x.exponent, x.q_flip, x.featured, 1, finish_of(x)}; }
INLINE bool by_key(const FmhaCpuArgs&) { return false; }
INLINE float key_factor(const FmhaCpuArgs&, const float*, i64, i64, i64) { return 1; }
INLINE float query_value(const Context&, QT x) { return to_float(x); }
INLINE float key_value(const Context&, KT x) { return to_float(x); }
