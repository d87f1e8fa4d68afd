static void pv_4(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,
                 bool first) {
  vf o0_0 = vset(0), o0_1 = vset(0), o1_0 = vset(0), o1_1 = vset(0), o2_0 = vset(0), o2_1 = vset(0), o3_0 = vset(0), o3_1 = vset(0);
  if (!first) {
    const vf f0 = vload(shrink + 0 * NL);
    const vf f1 = vload(shrink + 1 * NL);
    o0_0 = vload(o + 0 * BQ + 0 * NL) * f0;
    o0_1 = vload(o + 0 * BQ + 1 * NL) * f1;
    o1_0 = vload(o + 1 * BQ + 0 * NL) * f0;
    o1_1 = vload(o + 1 * BQ + 1 * NL) * f1;
    o2_0 = vload(o + 2 * BQ + 0 * NL) * f0;
    o2_1 = vload(o + 2 * BQ + 1 * NL) * f1;
    o3_0 = vload(o + 3 * BQ + 0 * NL) * f0;
    o3_1 = vload(o + 3 * BQ + 1 * NL) * f1;
  }
  for (i64 n = 0; n < steps; ++n, p += BQ, v += stride) {
    const vf u0 = vload((const float*)v + 0);
    const vf x0 = vload(p + 0 * NL);
    const vf x1 = vload(p + 1 * NL);
    o0_0 = vfma_word<0>(o0_0, u0, x0);
    o0_1 = vfma_word<0>(o0_1, u0, x1);
    o1_0 = vfma_word<1>(o1_0, u0, x0);
    o1_1 = vfma_word<1>(o1_1, u0, x1);
    o2_0 = vfma_word<2>(o2_0, u0, x0);
    o2_1 = vfma_word<2>(o2_1, u0, x1);
    o3_0 = vfma_word<3>(o3_0, u0, x0);
    o3_1 = vfma_word<3>(o3_1, u0, x1);
  }
  vstore(o + 0 * BQ + 0 * NL, o0_0);
  vstore(o + 0 * BQ + 1 * NL, o0_1);
  vstore(o + 1 * BQ + 0 * NL, o1_0);
  vstore(o + 1 * BQ + 1 * NL, o1_1);
  vstore(o + 2 * BQ + 0 * NL, o2_0);
  vstore(o + 2 * BQ + 1 * NL, o2_1);
  vstore(o + 3 * BQ + 0 * NL, o3_0);
  vstore(o + 3 * BQ + 1 * NL, o3_1);
}
