// exp2, tanh, Philox: one text for vectors and, where the row by row path needs them, for scalars.
INLINE float vset_like(float, float x) { return x; }
INLINE vf vset_like(vf, float x) { return vset(x); }
INLINE float vfma(float a, float b, float c) { return a * b + c; }
INLINE float vabs(float a) { return __builtin_fabsf(a); }
INLINE float vmax(float a, float b) { return a > b ? a : b; }
INLINE float vmin(float a, float b) { return a < b ? a : b; }
INLINE float vquotient(float p, float q) { return p / q; }
