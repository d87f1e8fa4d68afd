// Softcap without bias and ALiBi, where no mask hides a key: the cap enters with the exponent, so that scores are read once less.
// Its factors and that of the exponent are part of tanh's coefficients.
struct Capped {
  Tanh by;  // of the raw score
  bool late;
};

INLINE Capped capped_of(const Scaled& s, const FmhaCpuArgs& a) {
  Capped c;
  const Finish& f = s.finish;
  const float size = __builtin_fabsf(f.before);
  // Powers of the factor must be numbers: others take the other way.
  c.late = LATE_CAP && f.cap > 0 && !f.bias && !f.alibi && !by_key(a) && size > 1e-4f && size < 1e4f;
  const Tanh& plain = PAIRS ? SHORT_TANH : TANH;
  c.by.end = plain.end / size;
  float power = 1;
  for (int n = 0; n < 5; ++n, power *= f.before * f.before) {
    if (n < 4) c.by.p[n] = plain.p[n] * power * f.before * f.cap * s.exponent;
    c.by.q[n] = plain.q[n] * power;
  }
  return c;
}

// The exponent of a raw score.
INLINE vf capped(const Capped& c, vf raw) { return tanh_by<(bool)PAIRS>(raw, c.by); }

// As `weigh`, from raw scores. A column of vectors at a time: tanh's coefficients fill the registers.
static void weigh_capped(const Capped by, float* s, i64 n, const float* floor, float* sum, const float* shrink, bool keep) {
  for (int z = 0; z < NZ; ++z) {
    const vf base = vload(floor + z * NL);
    const float* in = s + z * NL;
    float* out = s + z * NL;
    vf total = vset(0);
    for (i64 j = 0; j < n; j += 2, in += 2 * BQ) {
      const vf a = vexp2(capped(by, vload(in)) - base);
      const vf b = j + 1 < n ? vexp2(capped(by, vload(in + BQ)) - base) : vset(0);
      total += a + b;
#if PAIRS
      vstore(out, vjoin(a, b)), out += BQ;
#else
      vstore(out, a), out += BQ;
      if (j + 1 < n) vstore(out, b), out += BQ;
#endif
    }
    vstore(sum + z * NL, vfma(vload(sum + z * NL), vload(shrink + z * NL), total * vset(keep ? 0.0f : 1.0f)));
  }
}
