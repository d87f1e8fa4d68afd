NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {
  const char* k3 = k + 3 * stride;
  vf s0_0 = vset(0), s1_0 = vset(0), s2_0 = vset(0), s3_0 = vset(0);
  for (; words >= 4; words -= 4, k += 16, k3 += 16, q += 4 * BQ) {
    const vf u0 = vload((const float*)(k));
    const vf u1 = vload((const float*)(k + stride));
    const vf u2 = vload((const float*)(k + 2 * stride));
    const vf u3 = vload((const float*)(k3));
    {
      const vf x0 = vload(q + 0 * NL);
      s0_0 = vfma_word<0>(s0_0, u0, x0);
      s1_0 = vfma_word<0>(s1_0, u1, x0);
      s2_0 = vfma_word<0>(s2_0, u2, x0);
      s3_0 = vfma_word<0>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 1 * BQ + 0 * NL);
      s0_0 = vfma_word<1>(s0_0, u0, x0);
      s1_0 = vfma_word<1>(s1_0, u1, x0);
      s2_0 = vfma_word<1>(s2_0, u2, x0);
      s3_0 = vfma_word<1>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 2 * BQ + 0 * NL);
      s0_0 = vfma_word<2>(s0_0, u0, x0);
      s1_0 = vfma_word<2>(s1_0, u1, x0);
      s2_0 = vfma_word<2>(s2_0, u2, x0);
      s3_0 = vfma_word<2>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 3 * BQ + 0 * NL);
      s0_0 = vfma_word<3>(s0_0, u0, x0);
      s1_0 = vfma_word<3>(s1_0, u1, x0);
      s2_0 = vfma_word<3>(s2_0, u2, x0);
      s3_0 = vfma_word<3>(s3_0, u3, x0);
    }
  }
  for (; words > 0; --words, k += 4, k3 += 4, q += BQ) {
    const vf e0 = vword(k);
    const vf e1 = vword(k + stride);
    const vf e2 = vword(k + 2 * stride);
    const vf e3 = vword(k3);
    const vf x0 = vload(q + 0 * NL);
    s0_0 = vfma(e0, x0, s0_0);
    s1_0 = vfma(e1, x0, s1_0);
    s2_0 = vfma(e2, x0, s2_0);
    s3_0 = vfma(e3, x0, s3_0);
  }
  vstore(s + 0 * NL, s0_0);
  vstore(s + 1 * NL, s1_0);
  vstore(s + 2 * NL, s2_0);
  vstore(s + 3 * NL, s3_0);
}
