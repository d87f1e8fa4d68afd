#ifndef FLUSHES
struct Flush {
  Flush() {}  // vexp2 clamps its argument
};
#endif
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
