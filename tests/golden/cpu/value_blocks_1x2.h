static void pv_2(const VALUE* v, i64 stride, const float* p, i64 steps, float* o, const float* shrink,
                 bool first) {
  vf o0_0 = vset(0), o0_1 = vset(0);
  if (!first) {
    const vf f0 = vload(shrink + 0 * NL);
    { const vf x = vload(o + 0 * BQ + 0 * NL) * f0, y = vload(o + 1 * BQ + 0 * NL) * f0;
      o0_0 = rows_low(x, y); o0_1 = rows_high(x, y); }
  }
  for (i64 n = 0; n < steps; ++n, p += 2 * BQ, v += stride) {
    const vf v0 = vload(v + 0 * NL);
    const vf x0 = vload(p + 0 * 2 * NL);
    const vf x1 = vload(p + 0 * 2 * NL + NL);
    o0_0 = vblock(o0_0, v0, x0);
    o0_1 = vblock(o0_1, v0, x1);
  }
  vstore(o + 0 * BQ + 0 * NL, rows_low(o0_0, o0_1));
  vstore(o + 1 * BQ + 0 * NL, rows_high(o0_0, o0_1));
}
