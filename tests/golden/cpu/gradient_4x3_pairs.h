INLINE void add_3(const char* w, i64 w_step, i64 w_row, const float* x, i64 x_step, i64 steps, float* a,
                  i64 a_row) {
  const char* w3 = w + 3 * w_row;
  vf a0_0 = vload(a + 0 * a_row + 0 * NL);
  vf a0_1 = vload(a + 0 * a_row + 1 * NL);
  vf a0_2 = vload(a + 0 * a_row + 2 * NL);
  vf a1_0 = vload(a + 1 * a_row + 0 * NL);
  vf a1_1 = vload(a + 1 * a_row + 1 * NL);
  vf a1_2 = vload(a + 1 * a_row + 2 * NL);
  vf a2_0 = vload(a + 2 * a_row + 0 * NL);
  vf a2_1 = vload(a + 2 * a_row + 1 * NL);
  vf a2_2 = vload(a + 2 * a_row + 2 * NL);
  vf a3_0 = vload(a + 3 * a_row + 0 * NL);
  vf a3_1 = vload(a + 3 * a_row + 1 * NL);
  vf a3_2 = vload(a + 3 * a_row + 2 * NL);
  for (i64 n = 0; n < steps; ++n, w += w_step, w3 += w_step, x += x_step) {
    const vf x0 = vload(x + 0 * NL);
    const vf x1 = vload(x + 1 * NL);
    const vf x2 = vload(x + 2 * NL);
    const vf e0 = vword(w);
    a0_0 = vdot(a0_0, e0, x0);
    a0_1 = vdot(a0_1, e0, x1);
    a0_2 = vdot(a0_2, e0, x2);
    const vf e1 = vword(w + w_row);
    a1_0 = vdot(a1_0, e1, x0);
    a1_1 = vdot(a1_1, e1, x1);
    a1_2 = vdot(a1_2, e1, x2);
    const vf e2 = vword(w + 2 * w_row);
    a2_0 = vdot(a2_0, e2, x0);
    a2_1 = vdot(a2_1, e2, x1);
    a2_2 = vdot(a2_2, e2, x2);
    const vf e3 = vword(w3);
    a3_0 = vdot(a3_0, e3, x0);
    a3_1 = vdot(a3_1, e3, x1);
    a3_2 = vdot(a3_2, e3, x2);
  }
  vstore(a + 0 * a_row + 0 * NL, a0_0);
  vstore(a + 0 * a_row + 1 * NL, a0_1);
  vstore(a + 0 * a_row + 2 * NL, a0_2);
  vstore(a + 1 * a_row + 0 * NL, a1_0);
  vstore(a + 1 * a_row + 1 * NL, a1_1);
  vstore(a + 1 * a_row + 2 * NL, a1_2);
  vstore(a + 2 * a_row + 0 * NL, a2_0);
  vstore(a + 2 * a_row + 1 * NL, a2_1);
  vstore(a + 2 * a_row + 2 * NL, a2_2);
  vstore(a + 3 * a_row + 0 * NL, a3_0);
  vstore(a + 3 * a_row + 1 * NL, a3_1);
  vstore(a + 3 * a_row + 2 * NL, a3_2);
}
