// Softcap without bias and ALiBi, where no mask hides a key: the cap enters with the exponent, so that scores are read once less.
// Its factors are part of tanh's coefficients. A block whose scores are all small needs no division.
struct Capped {
  Tanh by;  // of the raw score
  NearTanh near;
  bool late;
};

INLINE Capped capped_of(const Scaled& s, const FmhaCpuArgs& a) {
  Capped c;
  const Finish& f = s.finish;
  // Powers of the factor must be numbers, and the largest score must have the largest exponent: others take the other way.
  c.late = LATE_CAP && f.cap > 0 && f.cap < 1e4f && !f.bias && !f.alibi && !by_key(a) && f.before > 1e-4f && f.before < 1e4f;
  const Tanh& plain = PAIRS ? SHORT_TANH : TANH;
  const NearTanh& near = PAIRS ? SHORT_NEAR_TANH : NEAR_TANH;
  c.by.end = plain.end / f.before;
  c.near.end = near.end / f.before;
  float power = 1;
  for (int n = 0; n < 5; ++n, power *= f.before * f.before) {
    if (n < 4) c.by.p[n] = plain.p[n] * power * f.before * f.cap;
    c.by.q[n] = plain.q[n] * power;
    c.near.p[n] = near.p[n] * power * f.before * f.cap * (PAIRS ? LOG2E : 1);
  }
  return c;
}

// The finished score of a raw one.
INLINE vf capped(const Tanh& by, vf raw) { return tanh_by<(bool)PAIRS>(raw, by); }

// Whether all scores of a block are where the shorter form of tanh holds, from the extremes of each lane.
static bool are_near(const Capped& c, const float* high, const float* low) {
  vf most = vset(0);
  for (int z = 0; z < NZ; ++z) most = vmax(vmax(vload(high + z * NL), vset(0) - vload(low + z * NL)), most);
  return vtop(most) <= c.near.end;
}

// The exponent of 2 of a score less a floor: without a cap, and of a raw score with one where all scores are near 0.
struct Linear {
  vf factor;
};
struct Near {
  NearTanh by;
};
INLINE vf exponent(const Linear& of, vf score, vf floor) {
  if (FAULT_SCALED_MAXIMUM) return vfma(score, of.factor, -(floor * of.factor));
  return (score - floor) * of.factor;
}
// In one step where the rounding of a floor is less than that of a weight, which is rounded to bf16.
struct Fused {
  vf factor;
};
INLINE vf exponent(const Fused& of, vf score, vf floor) { return vfma(score, of.factor, -(floor * of.factor)); }
INLINE vf exponent(const Near& of, vf raw, vf floor) {
  const vf slope = near_tanh_by<(bool)PAIRS>(raw, of.by);
  return PAIRS ? vfma(raw, slope, -(floor * vset(LOG2E))) : vfma(raw, slope, -floor) * vset(LOG2E);
}

// As `weigh`, from raw scores of any size. A column of vectors at a time: tanh's coefficients fill the registers.
static void weigh_capped(const Tanh by, const float* s, float* p, i64 n, const float* floor, float* sum, const float* shrink,
                         bool keep) {
  for (int z = 0; z < NZ; ++z) {
    const vf base = vload(floor + z * NL);
    const float* in = s + z * NL;
    float* out = p + z * NL;
    vf total = vset(0);
    for (i64 j = 0; j < n; j += 2, in += 2 * BQ) {
      const vf a = vexp2((capped(by, vload(in)) - base) * vset(LOG2E));
      const vf b = j + 1 < n ? vexp2((capped(by, vload(in + BQ)) - base) * vset(LOG2E)) : vset(0);
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
