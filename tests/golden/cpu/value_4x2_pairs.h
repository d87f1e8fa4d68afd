static void pv_2(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,
                 bool first) {
  vf o0_0 = vset(0), o0_1 = vset(0), o0_2 = vset(0), o0_3 = vset(0), o1_0 = vset(0), o1_1 = vset(0), o1_2 = vset(0), o1_3 = vset(0);
  if (!first) {
    const vf f0 = vload(shrink + 0 * NL);
    const vf f1 = vload(shrink + 1 * NL);
    const vf f2 = vload(shrink + 2 * NL);
    const vf f3 = vload(shrink + 3 * NL);
    o0_0 = vload(o + 0 * BQ + 0 * NL) * f0;
    o0_1 = vload(o + 0 * BQ + 1 * NL) * f1;
    o0_2 = vload(o + 0 * BQ + 2 * NL) * f2;
    o0_3 = vload(o + 0 * BQ + 3 * NL) * f3;
    o1_0 = vload(o + 1 * BQ + 0 * NL) * f0;
    o1_1 = vload(o + 1 * BQ + 1 * NL) * f1;
    o1_2 = vload(o + 1 * BQ + 2 * NL) * f2;
    o1_3 = vload(o + 1 * BQ + 3 * NL) * f3;
  }
  for (i64 n = 0; n < steps; ++n, p += BQ, v += stride) {
    const vf p0 = vload(p + 0 * NL);
    const vf p1 = vload(p + 1 * NL);
    const vf p2 = vload(p + 2 * NL);
    const vf p3 = vload(p + 3 * NL);
    const vf v0 = vset(v[0]);
    o0_0 = vdot(o0_0, v0, p0);
    o0_1 = vdot(o0_1, v0, p1);
    o0_2 = vdot(o0_2, v0, p2);
    o0_3 = vdot(o0_3, v0, p3);
    const vf v1 = vset(v[1]);
    o1_0 = vdot(o1_0, v1, p0);
    o1_1 = vdot(o1_1, v1, p1);
    o1_2 = vdot(o1_2, v1, p2);
    o1_3 = vdot(o1_3, v1, p3);
  }
  vstore(o + 0 * BQ + 0 * NL, o0_0);
  vstore(o + 0 * BQ + 1 * NL, o0_1);
  vstore(o + 0 * BQ + 2 * NL, o0_2);
  vstore(o + 0 * BQ + 3 * NL, o0_3);
  vstore(o + 1 * BQ + 0 * NL, o1_0);
  vstore(o + 1 * BQ + 1 * NL, o1_1);
  vstore(o + 1 * BQ + 2 * NL, o1_2);
  vstore(o + 1 * BQ + 3 * NL, o1_3);
}
