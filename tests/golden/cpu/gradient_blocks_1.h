INLINE void add_1(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,
                  i64 a_row) {
  vf a0_0 = vset(0), a0_1 = vset(0), a1_0 = vset(0), a1_1 = vset(0);
  { const vf x0 = vload(a + 0 * a_row + 0 * NL), x1 = vload(a + 1 * a_row + 0 * NL);
    a0_0 = rows_low(x0, x1); a0_1 = rows_high(x0, x1); }
  { const vf x0 = vload(a + 2 * a_row + 0 * NL), x1 = vload(a + 3 * a_row + 0 * NL);
    a1_0 = rows_low(x0, x1); a1_1 = rows_high(x0, x1); }
  if (w_row == 4)
    for (; steps > 0; steps -= 2, w += 2 * w_step, x += 2 * x_step) {
      const vf w0 = vload((const float*)w), w1 = vload((const float*)(w + w_step));
      const vf x0 = vload(x + 0 * NL);
      const vf x1 = vload(x + 0 * NL + x_step);
      a0_0 = vblock(a0_0, w0, x0);
      a0_1 = vblock(a0_1, w0, x1);
      a1_0 = vblock(a1_0, w1, x0);
      a1_1 = vblock(a1_1, w1, x1);
    }
  const char* w3 = w + 3 * w_row;
  for (; steps >= 4; steps -= 4, w += 4 * BLOCK, w3 += 4 * BLOCK, x += 4 * x_step) {
    const vf row0 = vload((const float*)(w));
    const vf row1 = vload((const float*)(w + w_row));
    const vf row2 = vload((const float*)(w + 2 * w_row));
    const vf row3 = vload((const float*)(w3));
    const vf low0 = rows_low(row0, row1);
    const vf high0 = rows_high(row0, row1);
    const vf low1 = rows_low(row2, row3);
    const vf high1 = rows_high(row2, row3);
    {
      const vf x0 = vload(x + 0 * NL);
      const vf x1 = vload(x + 0 * NL + x_step);
      a0_0 = vblock(a0_0, low0, x0);
      a0_1 = vblock(a0_1, low0, x1);
      a1_0 = vblock(a1_0, low1, x0);
      a1_1 = vblock(a1_1, low1, x1);
    }
    {
      const vf x0 = vload(x + 2 * x_step + 0 * NL);
      const vf x1 = vload(x + 2 * x_step + 0 * NL + x_step);
      a0_0 = vblock(a0_0, high0, x0);
      a0_1 = vblock(a0_1, high0, x1);
      a1_0 = vblock(a1_0, high1, x0);
      a1_1 = vblock(a1_1, high1, x1);
    }
  }
  if (steps > 0) {
    const vf low0 = block_of(w, w + w_row, BLOCK);
    const vf low1 = block_of(w + 2 * w_row, w3, BLOCK);
    const vf x0 = vload(x + 0 * NL);
    const vf x1 = vload(x + 0 * NL + x_step);
    a0_0 = vblock(a0_0, low0, x0);
    a0_1 = vblock(a0_1, low0, x1);
    a1_0 = vblock(a1_0, low1, x0);
    a1_1 = vblock(a1_1, low1, x1);
  }
  vstore(a + 0 * a_row + 0 * NL, rows_low(a0_0, a0_1));
  vstore(a + 1 * a_row + 0 * NL, rows_high(a0_0, a0_1));
  vstore(a + 2 * a_row + 0 * NL, rows_low(a1_0, a1_1));
  vstore(a + 3 * a_row + 0 * NL, rows_high(a1_0, a1_1));
}
