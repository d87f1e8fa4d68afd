NOINLINE void products(const char* k, const i64 stride, const float* q, i64 words, float* s) {
  const char* k3 = k + 3 * stride;
  vf m0_0 = vset(0), m0_1 = vset(0), m1_0 = vset(0), m1_1 = vset(0);
  for (; words >= BLOCK; words -= BLOCK, k += 4 * BLOCK, k3 += 4 * BLOCK, q += 4 * BQ) {
    const vf row0 = vload((const float*)(k));
    const vf row1 = vload((const float*)(k + stride));
    const vf row2 = vload((const float*)(k + 2 * stride));
    const vf row3 = vload((const float*)(k3));
    const vf low0 = rows_low(row0, row1);
    const vf high0 = rows_high(row0, row1);
    const vf low1 = rows_low(row2, row3);
    const vf high1 = rows_high(row2, row3);
    {
      const vf x0 = vload(q + 0 * NL);
      const vf x1 = vload(q + 0 * NL + BQ);
      m0_0 = vblock(m0_0, low0, x0);
      m0_1 = vblock(m0_1, low0, x1);
      m1_0 = vblock(m1_0, low1, x0);
      m1_1 = vblock(m1_1, low1, x1);
    }
    {
      const vf x0 = vload(q + 2 * BQ + 0 * NL);
      const vf x1 = vload(q + 2 * BQ + 0 * NL + BQ);
      m0_0 = vblock(m0_0, high0, x0);
      m0_1 = vblock(m0_1, high0, x1);
      m1_0 = vblock(m1_0, high1, x0);
      m1_1 = vblock(m1_1, high1, x1);
    }
  }
  if (words > 0) {
    const vf low0 = block_of(k, k + stride, BLOCK);
    const vf low1 = block_of(k + 2 * stride, k3, BLOCK);
    const vf x0 = vload(q + 0 * NL);
    const vf x1 = vload(q + 0 * NL + BQ);
    m0_0 = vblock(m0_0, low0, x0);
    m0_1 = vblock(m0_1, low0, x1);
    m1_0 = vblock(m1_0, low1, x0);
    m1_1 = vblock(m1_1, low1, x1);
  }
  vstore(s + 0 * NL, rows_low(m0_0, m0_1));
  vstore(s + 1 * NL, rows_high(m0_0, m0_1));
  vstore(s + 2 * NL, rows_low(m1_0, m1_1));
  vstore(s + 3 * NL, rows_high(m1_0, m1_1));
}
