// 2^f for f in [0, 1]: minimax of degree 4 with value 1 at 0, relative error below 3e-6. Weights are rounded to bf16 (2e-3), and their
// fp32 sum must be right to 1e-5 for the LSE.
INLINE vf exp2_fraction(vf f) {
  vf p = vfma(vset(0.013426701538264751f), f, vset(0.052242446690797806f));
  p = vfma(p, f, vset(0.2412802129983902f));
  p = vfma(p, f, vset(0.6930448412895203f));
  return vfma(p, f, vset(1.0f));
}
