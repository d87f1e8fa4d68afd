static void pv_8(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,
                 bool first) {
  vf o0_0 = vset(0), o0_1 = vset(0), o1_0 = vset(0), o1_1 = vset(0), o2_0 = vset(0), o2_1 = vset(0), o3_0 = vset(0), o3_1 = vset(0), o4_0 = vset(0), o4_1 = vset(0), o5_0 = vset(0), o5_1 = vset(0), o6_0 = vset(0), o6_1 = vset(0), o7_0 = vset(0), o7_1 = vset(0);
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
    o4_0 = vload(o + 4 * BQ + 0 * NL) * f0;
    o4_1 = vload(o + 4 * BQ + 1 * NL) * f1;
    o5_0 = vload(o + 5 * BQ + 0 * NL) * f0;
    o5_1 = vload(o + 5 * BQ + 1 * NL) * f1;
    o6_0 = vload(o + 6 * BQ + 0 * NL) * f0;
    o6_1 = vload(o + 6 * BQ + 1 * NL) * f1;
    o7_0 = vload(o + 7 * BQ + 0 * NL) * f0;
    o7_1 = vload(o + 7 * BQ + 1 * NL) * f1;
  }
  for (i64 n = 0; n < steps; ++n, p += BQ, v += stride) {
    const vf p0 = vload(p + 0 * NL);
    const vf p1 = vload(p + 1 * NL);
    const vf v0 = vset(v[0]);
    o0_0 = vfma(v0, p0, o0_0);
    o0_1 = vfma(v0, p1, o0_1);
    const vf v1 = vset(v[1]);
    o1_0 = vfma(v1, p0, o1_0);
    o1_1 = vfma(v1, p1, o1_1);
    const vf v2 = vset(v[2]);
    o2_0 = vfma(v2, p0, o2_0);
    o2_1 = vfma(v2, p1, o2_1);
    const vf v3 = vset(v[3]);
    o3_0 = vfma(v3, p0, o3_0);
    o3_1 = vfma(v3, p1, o3_1);
    const vf v4 = vset(v[4]);
    o4_0 = vfma(v4, p0, o4_0);
    o4_1 = vfma(v4, p1, o4_1);
    const vf v5 = vset(v[5]);
    o5_0 = vfma(v5, p0, o5_0);
    o5_1 = vfma(v5, p1, o5_1);
    const vf v6 = vset(v[6]);
    o6_0 = vfma(v6, p0, o6_0);
    o6_1 = vfma(v6, p1, o6_1);
    const vf v7 = vset(v[7]);
    o7_0 = vfma(v7, p0, o7_0);
    o7_1 = vfma(v7, p1, o7_1);
  }
  vstore(o + 0 * BQ + 0 * NL, o0_0);
  vstore(o + 0 * BQ + 1 * NL, o0_1);
  vstore(o + 1 * BQ + 0 * NL, o1_0);
  vstore(o + 1 * BQ + 1 * NL, o1_1);
  vstore(o + 2 * BQ + 0 * NL, o2_0);
  vstore(o + 2 * BQ + 1 * NL, o2_1);
  vstore(o + 3 * BQ + 0 * NL, o3_0);
  vstore(o + 3 * BQ + 1 * NL, o3_1);
  vstore(o + 4 * BQ + 0 * NL, o4_0);
  vstore(o + 4 * BQ + 1 * NL, o4_1);
  vstore(o + 5 * BQ + 0 * NL, o5_0);
  vstore(o + 5 * BQ + 1 * NL, o5_1);
  vstore(o + 6 * BQ + 0 * NL, o6_0);
  vstore(o + 6 * BQ + 1 * NL, o6_1);
  vstore(o + 7 * BQ + 0 * NL, o7_0);
  vstore(o + 7 * BQ + 1 * NL, o7_1);
}
