NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {
  const char* k3 = k + 3 * stride;
  vf s0_0 = vset(0), s0_1 = vset(0), s0_2 = vset(0), s0_3 = vset(0), s1_0 = vset(0), s1_1 = vset(0), s1_2 = vset(0), s1_3 = vset(0), s2_0 = vset(0), s2_1 = vset(0), s2_2 = vset(0), s2_3 = vset(0), s3_0 = vset(0), s3_1 = vset(0), s3_2 = vset(0), s3_3 = vset(0);
  for (const char* end = k + 4 * words; k < end; k += 4, k3 += 4, q += BQ) {
    const vf q0 = vload(q + 0 * NL);
    const vf q1 = vload(q + 1 * NL);
    const vf q2 = vload(q + 2 * NL);
    const vf q3 = vload(q + 3 * NL);
    const vf e0 = vword(k);
    s0_0 = vfma(e0, q0, s0_0);
    s0_1 = vfma(e0, q1, s0_1);
    s0_2 = vfma(e0, q2, s0_2);
    s0_3 = vfma(e0, q3, s0_3);
    const vf e1 = vword(k + stride);
    s1_0 = vfma(e1, q0, s1_0);
    s1_1 = vfma(e1, q1, s1_1);
    s1_2 = vfma(e1, q2, s1_2);
    s1_3 = vfma(e1, q3, s1_3);
    const vf e2 = vword(k + 2 * stride);
    s2_0 = vfma(e2, q0, s2_0);
    s2_1 = vfma(e2, q1, s2_1);
    s2_2 = vfma(e2, q2, s2_2);
    s2_3 = vfma(e2, q3, s2_3);
    const vf e3 = vword(k3);
    s3_0 = vfma(e3, q0, s3_0);
    s3_1 = vfma(e3, q1, s3_1);
    s3_2 = vfma(e3, q2, s3_2);
    s3_3 = vfma(e3, q3, s3_3);
  }
  vstore(s + 0 * NL, s0_0);
  vstore(s + 1 * NL, s0_1);
  vstore(s + 2 * NL, s0_2);
  vstore(s + 3 * NL, s0_3);
  vstore(s + 4 * NL, s1_0);
  vstore(s + 5 * NL, s1_1);
  vstore(s + 6 * NL, s1_2);
  vstore(s + 7 * NL, s1_3);
  vstore(s + 8 * NL, s2_0);
  vstore(s + 9 * NL, s2_1);
  vstore(s + 10 * NL, s2_2);
  vstore(s + 11 * NL, s2_3);
  vstore(s + 12 * NL, s3_0);
  vstore(s + 13 * NL, s3_1);
  vstore(s + 14 * NL, s3_2);
  vstore(s + 15 * NL, s3_3);
}
