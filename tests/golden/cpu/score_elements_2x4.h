static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {
  const char* b3 = b0 + 3 * stride;
  vf s0_0 = vset(0), s0_1 = vset(0), s1_0 = vset(0), s1_1 = vset(0), s2_0 = vset(0), s2_1 = vset(0), s3_0 = vset(0), s3_1 = vset(0);
  const i64 end = columns * 4, whole = end / 16 * 16;
  i64 t = 0;
  for (; t < whole; t += 16, q += 4 * BQ) {
    const vf u0 = vload((const float*)(b0 + t));
    const vf u1 = vload((const float*)(b0 + t + 1 * stride));
    const vf u2 = vload((const float*)(b0 + t + 2 * stride));
    const vf u3 = vload((const float*)(b3 + t));
    {
      const vf x0 = vload(q + 0 * NL);
      const vf x1 = vload(q + 1 * NL);
      s0_0 = vfma_word<0>(s0_0, u0, x0);
      s0_1 = vfma_word<0>(s0_1, u0, x1);
      s1_0 = vfma_word<0>(s1_0, u1, x0);
      s1_1 = vfma_word<0>(s1_1, u1, x1);
      s2_0 = vfma_word<0>(s2_0, u2, x0);
      s2_1 = vfma_word<0>(s2_1, u2, x1);
      s3_0 = vfma_word<0>(s3_0, u3, x0);
      s3_1 = vfma_word<0>(s3_1, u3, x1);
    }
    {
      const vf x0 = vload(q + 1 * BQ + 0 * NL);
      const vf x1 = vload(q + 1 * BQ + 1 * NL);
      s0_0 = vfma_word<1>(s0_0, u0, x0);
      s0_1 = vfma_word<1>(s0_1, u0, x1);
      s1_0 = vfma_word<1>(s1_0, u1, x0);
      s1_1 = vfma_word<1>(s1_1, u1, x1);
      s2_0 = vfma_word<1>(s2_0, u2, x0);
      s2_1 = vfma_word<1>(s2_1, u2, x1);
      s3_0 = vfma_word<1>(s3_0, u3, x0);
      s3_1 = vfma_word<1>(s3_1, u3, x1);
    }
    {
      const vf x0 = vload(q + 2 * BQ + 0 * NL);
      const vf x1 = vload(q + 2 * BQ + 1 * NL);
      s0_0 = vfma_word<2>(s0_0, u0, x0);
      s0_1 = vfma_word<2>(s0_1, u0, x1);
      s1_0 = vfma_word<2>(s1_0, u1, x0);
      s1_1 = vfma_word<2>(s1_1, u1, x1);
      s2_0 = vfma_word<2>(s2_0, u2, x0);
      s2_1 = vfma_word<2>(s2_1, u2, x1);
      s3_0 = vfma_word<2>(s3_0, u3, x0);
      s3_1 = vfma_word<2>(s3_1, u3, x1);
    }
    {
      const vf x0 = vload(q + 3 * BQ + 0 * NL);
      const vf x1 = vload(q + 3 * BQ + 1 * NL);
      s0_0 = vfma_word<3>(s0_0, u0, x0);
      s0_1 = vfma_word<3>(s0_1, u0, x1);
      s1_0 = vfma_word<3>(s1_0, u1, x0);
      s1_1 = vfma_word<3>(s1_1, u1, x1);
      s2_0 = vfma_word<3>(s2_0, u2, x0);
      s2_1 = vfma_word<3>(s2_1, u2, x1);
      s3_0 = vfma_word<3>(s3_0, u3, x0);
      s3_1 = vfma_word<3>(s3_1, u3, x1);
    }
  }
  for (; t < end; t += 4, q += BQ) {
    const vf e0 = vset(*(const float*)(b0 + t));
    const vf e1 = vset(*(const float*)(b0 + t + 1 * stride));
    const vf e2 = vset(*(const float*)(b0 + t + 2 * stride));
    const vf e3 = vset(*(const float*)(b3 + t));
    const vf x0 = vload(q + 0 * NL);
    const vf x1 = vload(q + 1 * NL);
    s0_0 = vfma(e0, x0, s0_0);
    s0_1 = vfma(e0, x1, s0_1);
    s1_0 = vfma(e1, x0, s1_0);
    s1_1 = vfma(e1, x1, s1_1);
    s2_0 = vfma(e2, x0, s2_0);
    s2_1 = vfma(e2, x1, s2_1);
    s3_0 = vfma(e3, x0, s3_0);
    s3_1 = vfma(e3, x1, s3_1);
  }
  vf top0 = vload(top + 0 * NL);
  vf top1 = vload(top + 1 * NL);
  vstore(s + 0 * BQ + 0 * NL, s0_0);
  top0 = vmax(s0_0, top0);
  vstore(s + 0 * BQ + 1 * NL, s0_1);
  top1 = vmax(s0_1, top1);
  vstore(s + 1 * BQ + 0 * NL, s1_0);
  top0 = vmax(s1_0, top0);
  vstore(s + 1 * BQ + 1 * NL, s1_1);
  top1 = vmax(s1_1, top1);
  vstore(s + 2 * BQ + 0 * NL, s2_0);
  top0 = vmax(s2_0, top0);
  vstore(s + 2 * BQ + 1 * NL, s2_1);
  top1 = vmax(s2_1, top1);
  vstore(s + 3 * BQ + 0 * NL, s3_0);
  top0 = vmax(s3_0, top0);
  vstore(s + 3 * BQ + 1 * NL, s3_1);
  top1 = vmax(s3_1, top1);
  vstore(top + 0 * NL, top0);
  vstore(top + 1 * NL, top1);
}
