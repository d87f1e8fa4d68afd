static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {
  const char* b3 = b0 + 3 * stride;
  vf s0_0 = vset(0), s1_0 = vset(0), s2_0 = vset(0), s3_0 = vset(0);
  const i64 end = columns / 2 * 4, whole = end / 16 * 16;
  i64 t = 0;
  for (; t < whole; t += 16, q += 4 * BQ) {
    const vf u0 = vload((const float*)(b0 + t));
    const vf u1 = vload((const float*)(b0 + t + 1 * stride));
    const vf u2 = vload((const float*)(b0 + t + 2 * stride));
    const vf u3 = vload((const float*)(b3 + t));
    {
      const vf x0 = vload(q + 0 * NL);
      s0_0 = vdot_word<0>(s0_0, u0, x0);
      s1_0 = vdot_word<0>(s1_0, u1, x0);
      s2_0 = vdot_word<0>(s2_0, u2, x0);
      s3_0 = vdot_word<0>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 1 * BQ + 0 * NL);
      s0_0 = vdot_word<1>(s0_0, u0, x0);
      s1_0 = vdot_word<1>(s1_0, u1, x0);
      s2_0 = vdot_word<1>(s2_0, u2, x0);
      s3_0 = vdot_word<1>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 2 * BQ + 0 * NL);
      s0_0 = vdot_word<2>(s0_0, u0, x0);
      s1_0 = vdot_word<2>(s1_0, u1, x0);
      s2_0 = vdot_word<2>(s2_0, u2, x0);
      s3_0 = vdot_word<2>(s3_0, u3, x0);
    }
    {
      const vf x0 = vload(q + 3 * BQ + 0 * NL);
      s0_0 = vdot_word<3>(s0_0, u0, x0);
      s1_0 = vdot_word<3>(s1_0, u1, x0);
      s2_0 = vdot_word<3>(s2_0, u2, x0);
      s3_0 = vdot_word<3>(s3_0, u3, x0);
    }
  }
  for (; t < end; t += 4, q += BQ) {
    const vf e0 = vpair(load32(b0 + t));
    const vf e1 = vpair(load32(b0 + t + 1 * stride));
    const vf e2 = vpair(load32(b0 + t + 2 * stride));
    const vf e3 = vpair(load32(b3 + t));
    const vf x0 = vload(q + 0 * NL);
    s0_0 = vdot(s0_0, e0, x0);
    s1_0 = vdot(s1_0, e1, x0);
    s2_0 = vdot(s2_0, e2, x0);
    s3_0 = vdot(s3_0, e3, x0);
  }
  if (columns & 1) {
    const vf e0 = vpair(*(const uint16_t*)(b0 + t));
    const vf e1 = vpair(*(const uint16_t*)(b0 + t + 1 * stride));
    const vf e2 = vpair(*(const uint16_t*)(b0 + t + 2 * stride));
    const vf e3 = vpair(*(const uint16_t*)(b3 + t));
    const vf x0 = vload(q + 0 * NL);
    s0_0 = vdot(s0_0, e0, x0);
    s1_0 = vdot(s1_0, e1, x0);
    s2_0 = vdot(s2_0, e2, x0);
    s3_0 = vdot(s3_0, e3, x0);
  }
  vf top0 = vload(top + 0 * NL);
  vstore(s + 0 * BQ + 0 * NL, s0_0);
  top0 = vmax(s0_0, top0);
  vstore(s + 1 * BQ + 0 * NL, s1_0);
  top0 = vmax(s1_0, top0);
  vstore(s + 2 * BQ + 0 * NL, s2_0);
  top0 = vmax(s2_0, top0);
  vstore(s + 3 * BQ + 0 * NL, s3_0);
  top0 = vmax(s3_0, top0);
  vstore(top + 0 * NL, top0);
}
