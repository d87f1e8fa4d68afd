// exp2, tanh, Philox: one text for vectors and, where the row by row path needs them, for scalars.
#ifndef FLUSHES
struct Flush {
  Flush() {}  // vexp2 clamps its argument
};
#endif
INLINE float vset_like(float, float x) { return x; }
INLINE vf vset_like(vf, float x) { return vset(x); }
INLINE float vfma(float a, float b, float c) { return a * b + c; }
INLINE float vabs(float a) { return __builtin_fabsf(a); }
INLINE float vmax(float a, float b) { return a > b ? a : b; }
INLINE float vmin(float a, float b) { return a < b ? a : b; }
INLINE float vquotient(float p, float q) { return p / q; }

// 2^f for f in [0, 1]: minimax of degree 5 with value 1 at 0, relative error below 1.5e-7 in fp32.
INLINE vf exp2_fraction(vf f) {
  vf p = vfma(vset(0.0018671301659196615f), f, vset(0.009017029777169228f));
  p = vfma(p, f, vset(0.05579990893602371f));
  p = vfma(p, f, vset(0.24016445875167847f));
  p = vfma(p, f, vset(0.6931512951850891f));
  return vfma(p, f, vset(1.0f));
}

// tanh(x) = x * P(x^2) / Q(x^2), minimax of degrees 3 and 4 on |x| <= 8 (1.5e-7 before rounding); beyond, 1 is as near.
struct Tanh {
  float end, p[4], q[5];
};
const Tanh TANH = {8,
                   {0.9999998807907104f, 0.12925660610198975f, 0.002951021771878004f, 1.1428403013269417e-05f},
                   {1.0f, 0.46258875727653503f, 0.023815546184778214f, 0.00023866890114732087f, 2.459204608840082e-07f}};
// Degrees 2 and 3 on |x| <= 6: relative error 7.4e-6, and 2e-5 beyond. For weights that are rounded to bf16 (2e-3) afterwards.
const Tanh SHORT_TANH = {6,
                         {0.9999926754639247f, 0.11483060464557705f, 0.0015145728778856934f, 0},
                         {1.0f, 0.4481138676472976f, 0.01761112685410036f, 5.6271640351752225e-05f, 0}};

template <bool SHORT, class V>
INLINE V tanh_by(V x, const Tanh& by) {
  x = vmin(vset_like(x, by.end), vmax(vset_like(x, -by.end), x));
  const V z = x * x;
  V p = vset_like(x, by.p[2]), q = vset_like(x, by.q[3]);
  if (!SHORT) p = vfma(vset_like(x, by.p[3]), z, p), q = vfma(vset_like(x, by.q[4]), z, q);
  p = vfma(p, z, vset_like(x, by.p[1]));
  p = vfma(p, z, vset_like(x, by.p[0]));
  q = vfma(q, z, vset_like(x, by.q[2]));
  q = vfma(q, z, vset_like(x, by.q[1]));
  q = vfma(q, z, vset_like(x, by.q[0]));
  return vquotient(x * p, q);
}
template <class V>
INLINE V vtanh(V x) {
  return tanh_by<false>(x, TANH);
}

INLINE void vmul_wide(uint32_t a, uint32_t m, uint32_t& hi, uint32_t& lo) {
  uint64_t x = (uint64_t)a * m;
  hi = (uint32_t)(x >> 32);
  lo = (uint32_t)x;
}

// Philox 4x32-10 (Salmon et al., SC'11): c holds the counter and receives the four output words.
template <class U>
INLINE void philox(U c[4], uint64_t seed) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    U hi0, lo0, hi1, lo1;
    vmul_wide(c[0], 0xD2511F53u, hi0, lo0);
    vmul_wide(c[2], 0xCD9E8D57u, hi1, lo1);
    c[0] = hi1 ^ c[1] ^ k0;
    c[2] = hi0 ^ c[3] ^ k1;
    c[1] = lo1;
    c[3] = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}
