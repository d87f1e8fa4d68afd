static void QK_FULL(const char* b0, const i64 stride, const float* q, i64 columns, float* s, float* top) {
  vf m0_0 = vset(0), m0_1 = vset(0);
  i64 t = 0;
  for (; columns >= 2 * BLOCK; columns -= 2 * BLOCK, t += 4 * BLOCK, q += 4 * BQ) {
    const vf row0 = vload((const float*)(b0 + t));
    const vf row1 = vload((const float*)(b0 + t + 1 * stride));
    const vf low0 = rows_low(row0, row1);
    const vf high0 = rows_high(row0, row1);
    {
      const vf x0 = vload(q + 0 * NL);
      const vf x1 = vload(q + 0 * NL + BQ);
      m0_0 = vblock(m0_0, low0, x0);
      m0_1 = vblock(m0_1, low0, x1);
    }
    {
      const vf x0 = vload(q + 2 * BQ + 0 * NL);
      const vf x1 = vload(q + 2 * BQ + 0 * NL + BQ);
      m0_0 = vblock(m0_0, high0, x0);
      m0_1 = vblock(m0_1, high0, x1);
    }
  }
  for (; columns > 0; columns -= BLOCK, t += 2 * BLOCK, q += 2 * BQ) {
    const i64 n = min64(BLOCK, columns);
    const vf low0 = block_of(b0 + t, b0 + t + 1 * stride, n);
    const vf x0 = vload(q + 0 * NL);
    const vf x1 = vload(q + 0 * NL + BQ);
    m0_0 = vblock(m0_0, low0, x0);
    m0_1 = vblock(m0_1, low0, x1);
  }
  vf top0 = vload(top + 0 * NL);
  vf score;
  score = rows_low(m0_0, m0_1);
  vstore(s + 0 * BQ + 0 * NL, score);
  top0 = vmax(score, top0);
  score = rows_high(m0_0, m0_1);
  vstore(s + 1 * BQ + 0 * NL, score);
  top0 = vmax(score, top0);
  vstore(top + 0 * NL, top0);
}
