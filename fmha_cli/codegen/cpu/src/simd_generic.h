// Vector operations on 4 floats in the compilers' own vector types (GCC, Clang): any architecture.
enum { NL = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef vi vm;
typedef uint32_t vu __attribute__((vector_size(16)));

INLINE vf exp2_fraction(vf f);
INLINE vf vset(float x) { return (vf){x, x, x, x}; }
INLINE vi vlanes_i() { return (vi){0, 1, 2, 3}; }
INLINE vf vload(const float* p) {
  vf x;
  memcpy(&x, p, sizeof x);
  return x;
}
INLINE void vstore(float* p, vf x) { memcpy(p, &x, sizeof x); }
INLINE void vstore_n(float* p, vf x, i64 n) { memcpy(p, &x, (size_t)n * sizeof(float)); }
template <class T>
INLINE vf vload(const T* p) {
  return (vf){to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])};
}
template <class T>
INLINE vf vload_n(const T* p, i64 n) {
  T row[NL] = {};
  memcpy(row, p, (size_t)n * sizeof(T));
  return vload(row);
}
template <class T>
INLINE void vstore_n(T* p, vf x, i64 n) {
  for (i64 i = 0; i < n; ++i) from_float(p + i, x[i]);
}
template <class T>
INLINE void vstore(T* p, vf x) {
  vstore_n(p, x, NL);
}
INLINE vf vfma(vf a, vf b, vf c) { return a * b + c; }
INLINE vf vpick(vm m, vf yes, vf no) { return (vf)(((vi)yes & m) | ((vi)no & ~m)); }
INLINE vm vabove(vf a, vf b) { return (vm)(a > b); }
// NaN in b is kept, NaN in a is not.
INLINE vf vmax(vf a, vf b) { return vpick(vabove(a, b), a, b); }
INLINE vf vmin(vf a, vf b) { return vpick(vabove(b, a), a, b); }
INLINE vf vxor(vf a, uint32_t bits) { return (vf)((vi)a ^ (int32_t)bits); }
INLINE vf vabs(vf a) { return (vf)((vi)a & 0x7fffffff); }
INLINE vf viota() { return (vf){0, 1, 2, 3}; }
// Lanes lo <= lane < hi; both in [0, NL].
INLINE vm vrange(i64 lo, i64 hi) { return (vm)((vlanes_i() >= (int32_t)lo) & (vlanes_i() < (int32_t)hi)); }
INLINE float vsum(vf x) { return (x[0] + x[1]) + (x[2] + x[3]); }
INLINE float vtop(vf x) {
  float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
  return a > b ? a : b;
}
INLINE vf vquotient(vf p, vf q) { return p / q; }
// At -127 the sum of exponents is 0 and the fraction 1: exactly 0. NaN stays NaN: its lanes are put back.
INLINE vf vexp2(vf x) {
  vm number = (vm)(x == x);
  vf y = vpick(number, vmax(vset(-127.0f), x), vset(0.0f));
  vi n = __builtin_convertvector(y, vi);
  n += (vi)(__builtin_convertvector(n, vf) > y);  // true is -1: truncation becomes floor
  vf p = exp2_fraction(y - __builtin_convertvector(n, vf));
  return vpick(number, (vf)((vi)p + (n << 23)), x);
}
INLINE void vmul_wide(vu a, uint32_t m, vu& hi, vu& lo) {
  for (int i = 0; i < NL; ++i) {
    uint64_t x = (uint64_t)a[i] * m;
    hi[i] = (uint32_t)(x >> 32);
    lo[i] = (uint32_t)x;
  }
}
INLINE vu vlanes() { return (vu){0, 1, 2, 3}; }
INLINE vm vreaches(vu a, uint32_t least) { return (vm)(a >= least); }
